"""A terminal of a session, on the user's own: `hutch shell SESSION`.

Bytes go both ways over a WebSocket. When the line is cut, it is opened again from the
byte that was shown last; the shell itself goes on meanwhile.
"""

import asyncio
import json
import re
import shutil
import signal
import sys
from contextlib import suppress
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.cli.descriptor_io import Inlet, Outlet
from hutch.cli.server_address import API
from hutch.cli.server_certificates import trusted
from hutch.cli.server_requests import SHORT_CHARS, ask, find_session, short
from hutch.cli.signals import on_signals
from hutch.cli.user_terminal import OwnTerminal
from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound, Unavailable

LEAVE = b"\x1d"  # Ctrl-]
FRAME_BYTES = 32 * 1024  # of what is typed
MAX_WAITING_BYTES = 1024 * 1024
MAX_FRAME_BYTES = 16 * 1024 * 1024
WAITS_S = (0.2, 0.5, 1.0, 1.0, 2.0)
NOTE, OFF = "\x1b[2m", "\x1b[0m"


def is_session(word: str) -> bool:
    """Whether a single word after `hutch shell` names a session, and no program of this machine."""
    if word.startswith("ses_"):
        return True
    if not re.fullmatch(f"[0-9a-hjkmnp-tv-z]{{{SHORT_CHARS}}}", word) or shutil.which(word):
        return False

    async def look() -> bool:
        try:
            async with Client() as client:
                await find_session(client, word)
        except (BadRequest, Unavailable):
            return False
        return True

    return asyncio.run(look())


def session_shell(name: str, terminal_id: str) -> int:
    """Attach to a terminal of a session; a new one unless one is named. The shell's exit code."""
    if not OwnTerminal.is_there():
        raise BadRequest("A shell of a session needs a terminal on both ends.")

    async def work(client: Client) -> int:
        found = await find_session(client, name)
        own = OwnTerminal()
        path = f"/sessions/{found['id']}/terminals"
        if terminal_id:
            listed = (await client.get(path))["items"]
            if terminal_id not in {each["id"] for each in listed}:
                there = ", ".join(each["id"] for each in listed if not each["ended"]) or "none"
                raise NotFound(
                    f"There is no terminal {terminal_id[:40]!r} in this session; there is {there}."
                )
            id = terminal_id
        else:
            size = own.size()
            id = str((await client.post(path, {"columns": size.columns, "rows": size.rows}))["id"])
        _say(f"terminal {id} of session {short(found['id'])}; Ctrl-] leaves, and it goes on")
        visit = _Visit(client, f"{path}/{id}/socket", own)
        await visit.run()
        if visit.left:
            _say(f"left; come back: hutch shell {found['id']} --terminal {id}")
            return exit_codes.OK
        if visit.problem is not None:
            raise visit.problem
        return 128 + signal.SIGHUP if visit.exit_code is None else visit.exit_code

    return ask(work)


class _Visit:
    """From when somebody comes until they leave or the shell ends."""

    def __init__(self, client: Client, path: str, own: OwnTerminal) -> None:
        self.left = False
        self.exit_code: int | None = None
        self.problem: HutchError | None = None
        self._client, self._path, self._own = client, path, own
        self._socket: ClientConnection | None = None
        self._seq: int | None = None  # of the byte that is shown next
        self._done = asyncio.Event()
        self._outlet = Outlet(1)
        self._typed = bytearray()
        self._news = asyncio.Event()

    async def run(self) -> None:
        changed = {signal.SIGWINCH: self._resize, signal.SIGCONT: self._own.make_raw}
        ends = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._leave)
        with self._own.raw(), on_signals({**changed, **ends}):
            works = (self._stay(), self._type(), self._send(), self._done.wait())
            tasks = [asyncio.ensure_future(work) for work in works]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for task in tasks:
                    task.cancel()
                results = await asyncio.gather(*tasks, return_exceptions=True)
                if self.left or self.problem:
                    with suppress(OSError):
                        await self._outlet.write(self._own.reset_sequence() + b"\r\n")
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _stay(self) -> None:
        """Come back after every cut, until the shell has ended."""
        failures, told = 0, False
        while not self._done.is_set():
            try:
                async with await self._connect() as self._socket:
                    if told:
                        await self._note("back")
                    failures, told = 0, False
                    await self._resize()
                    self._news.set()
                    await self._show(self._socket)
            except InvalidStatus as error:
                if error.response.status_code in (401, 403) and failures > len(WAITS_S):
                    self._end(Denied("The server does not let you at this terminal."))
                elif error.response.status_code == 404:
                    self._end(
                        Unavailable("The terminal is gone: its session was parked, or the server ended.")
                    )
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed):
                pass
            finally:
                self._socket = None
            if self._done.is_set():
                return
            if not told:
                told = True
                await self._note("the server is away; waiting for it (Ctrl-] leaves)")
            await asyncio.sleep(WAITS_S[min(failures, len(WAITS_S) - 1)])
            failures += 1
            with suppress(Unavailable):
                await self._client.look_again()

    async def _connect(self) -> ClientConnection:
        address = self._client.address
        resume = "" if self._seq is None else f"?resume={self._seq}"
        context: Any = trusted(address) if address.url.startswith("https:") else None
        return await connect(
            f"{address.url.replace('http', 'ws', 1)}{API}{self._path}{resume}",
            additional_headers={"Authorization": f"Bearer {address.token}"},
            compression=None,
            max_size=MAX_FRAME_BYTES,
            ssl=None if context is True else context,
            proxy=None if address.is_local else True,
        )

    async def _show(self, socket: ClientConnection) -> None:
        async for frame in socket:
            if isinstance(frame, bytes):
                self._own.watch(frame)
                await self._outlet.write(frame)
                self._seq = (self._seq or 0) + len(frame)
                with suppress(ConnectionClosed):  # what came before the end is still to be shown
                    await socket.send(json.dumps({"type": "ack", "bytes": len(frame)}))
                continue
            said = json.loads(frame)
            match said.get("type"):
                case "hello":
                    self._seq = int(said["seq"])
                    if said.get("missed_bytes"):
                        await self._note(f"{said['missed_bytes']} bytes were printed meanwhile and are gone")
                    if not said.get("writes"):
                        await self._note("you may watch, and not type")
                case "exit":
                    self.exit_code = said.get("exit_code")
                    self._done.set()
                case "error":
                    await self._note(str(said.get("detail"))[:200])
        if socket.close_code == 4403:
            self._end(Denied("The server says: you may no longer see this."))

    async def _type(self) -> None:
        """Read the keys, also while the line is cut: one of them leaves."""
        keys = Inlet(0)
        while data := await keys.read():
            before, leave, _ = data.partition(LEAVE)
            if len(self._typed) < MAX_WAITING_BYTES:
                self._typed += before
                self._news.set()
            if leave:
                break
        self._leave()

    async def _send(self) -> None:
        """What was typed goes on its way as soon as there is one; what got lost on it is not sent again."""
        while True:
            await self._news.wait()
            self._news.clear()
            while self._typed and (socket := self._socket) is not None:
                frame, self._typed = bytes(self._typed[:FRAME_BYTES]), self._typed[FRAME_BYTES:]
                with suppress(ConnectionClosed):
                    await socket.send(frame)

    async def _resize(self) -> None:
        size = self._own.size()
        if self._socket is not None:
            with suppress(ConnectionClosed):
                frame = {"type": "resize", "columns": size.columns, "rows": size.rows}
                await self._socket.send(json.dumps(frame))

    async def _note(self, text: str) -> None:
        await self._outlet.write(f"\r\n{NOTE}hutch: {text}{OFF}\r\n".encode())

    def _leave(self) -> None:
        self.left = True
        self._done.set()

    def _end(self, problem: HutchError) -> None:
        self.problem = problem
        self._done.set()


def _say(text: str) -> None:
    sys.stderr.write(f"hutch: {text}\n")
    sys.stderr.flush()
