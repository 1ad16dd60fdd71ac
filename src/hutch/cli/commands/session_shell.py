"""A terminal of a session on the user's own terminal: `hutch shell SESSION`.

Bytes go both ways over a WebSocket. When the connection breaks, it is reopened after the last byte
shown; the shell itself keeps running.
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
from hutch.cli.api_client import Client
from hutch.cli.async_stdio import Inlet, Outlet
from hutch.cli.lent_terminal import OwnTerminal
from hutch.cli.server_address_and_token import API
from hutch.cli.server_certificates import trusted
from hutch.cli.server_requests import SHORT_CHARS, ask, find_session, short
from hutch.cli.signals_and_closed_output import on_signals
from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.system.task_cancellation import cancel_and_wait
from hutch.system.terminal_safe_text import printable

LEAVE = b"\x1d"  # Ctrl-]
INPUT_FRAME_BYTES = 32 * 1024
MAX_BUFFERED_INPUT_BYTES = 1024 * 1024
MAX_FRAME_BYTES = 16 * 1024 * 1024
RETRY_DELAYS_S = (0.2, 0.5, 1.0, 1.0, 2.0)
NOTE, OFF = "\x1b[2m", "\x1b[0m"


def is_session(word: str) -> bool:
    """True if a single word after `hutch shell` names a session and not a local program."""
    if word.startswith("ses_"):
        return True
    if not re.fullmatch(f"[0-9a-hjkmnp-tv-z]{{{SHORT_CHARS}}}", word) or shutil.which(word):
        return False

    async def exists() -> bool:
        try:
            async with Client() as client:
                await find_session(client, word)
        except (BadRequest, Unavailable):
            return False
        return True

    return asyncio.run(exists())


def session_shell(name: str, terminal_id: str) -> int:
    """Attach to a terminal of a session, or to a new one; return the shell's exit code."""
    if not OwnTerminal.is_there():
        raise BadRequest("A session's shell needs a terminal for input and output.")

    async def work(client: Client) -> int:
        found = await find_session(client, name)
        own = OwnTerminal()
        path = f"/sessions/{found['id']}/terminals"
        if terminal_id:
            listed = (await client.get(path))["items"]
            if terminal_id not in {each["id"] for each in listed}:
                existing = ", ".join(each["id"] for each in listed if not each["ended"]) or "none"
                raise NotFound(
                    f"There is no terminal {terminal_id[:40]!r} in this session. Open terminals: {existing}."
                )
            id = terminal_id
        else:
            size = own.size()
            id = str((await client.post(path, {"columns": size.columns, "rows": size.rows}))["id"])
        _say(f"terminal {id} of session {short(found['id'])}; Ctrl-] detaches, the shell keeps running")
        connection = _TerminalConnection(client, f"{path}/{id}/socket", own)
        await connection.run()
        if connection.is_detached:
            _say(f"detached; return with: hutch shell {found['id']} --terminal {id}")
            return exit_codes.OK
        if connection.problem is not None:
            raise connection.problem
        if connection.limit:
            setting = connection.limit.partition(" ")[0]
            raise LimitReached(f"The terminal was stopped by the limit {connection.limit}.", limit=setting)
        return 128 + signal.SIGHUP if connection.exit_code is None else connection.exit_code

    return ask(work)


class _TerminalConnection:
    """The connection to a session's terminal, until the user detaches or the shell ends."""

    def __init__(self, client: Client, path: str, own: OwnTerminal) -> None:
        self.is_detached = False
        self.exit_code: int | None = None
        self.limit = ""  # that stopped the program: the setting and its value
        self.problem: HutchError | None = None
        self._client, self._path, self._own = client, path, own
        self._socket: ClientConnection | None = None
        self._seq: int | None = None  # of the next byte to show
        self._done = asyncio.Event()
        self._outlet = Outlet(1)
        self._typed = bytearray()
        self._has_input = asyncio.Event()

    async def run(self) -> None:
        changed = {signal.SIGWINCH: self._resize, signal.SIGCONT: self._own.make_raw}
        ends = dict.fromkeys((signal.SIGTERM, signal.SIGHUP), self._detach)
        with self._own.raw(), on_signals({**changed, **ends}):
            works = (self._stay_connected(), self._read_keys(), self._send(), self._done.wait())
            tasks = [asyncio.ensure_future(work) for work in works]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                results = await cancel_and_wait(*tasks)
                if self.is_detached or self.problem:
                    with suppress(OSError):
                        await self._outlet.write(self._own.reset_sequence() + b"\r\n")
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _stay_connected(self) -> None:
        """Reconnect after every interruption, until the shell has ended."""
        failures, is_reported = 0, False
        while not self._done.is_set():
            try:
                async with await self._connect() as self._socket:
                    if is_reported:
                        await self._note("reconnected")
                    failures, is_reported = 0, False
                    await self._resize()
                    self._has_input.set()
                    await self._show(self._socket)
            except InvalidStatus as error:
                if error.response.status_code in (401, 403) and failures > len(RETRY_DELAYS_S):
                    self._end(Denied("The server denies you access to this terminal."))
                elif error.response.status_code == 404:
                    self._end(
                        Unavailable(
                            "The terminal no longer exists: its session was parked, or the server stopped."
                        )
                    )
            except (OSError, TimeoutError, InvalidHandshake, ConnectionClosed):
                pass
            finally:
                self._socket = None
            if self._done.is_set():
                return
            if not is_reported:
                is_reported = True
                await self._note("disconnected; waiting for the server (Ctrl-] detaches)")
            await asyncio.sleep(RETRY_DELAYS_S[min(failures, len(RETRY_DELAYS_S) - 1)])
            failures += 1
            with suppress(Unavailable):
                await self._client.refresh_address()

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
                with suppress(ConnectionClosed):  # output received before the end is still shown
                    await socket.send(json.dumps({"type": "ack", "bytes": len(frame)}))
                continue
            message = json.loads(frame)
            match message.get("type"):
                case "hello":
                    self._seq = int(message["seq"])
                    if message.get("missed_bytes"):
                        await self._note(f"{message['missed_bytes']} bytes of output were dropped")
                    if not message.get("writes"):
                        await self._note("this terminal is read-only for you")
                case "writer" if message.get("agent"):
                    await self._note("the agent types here; any key takes over")
                case "exit":
                    self.exit_code = message.get("exit_code")
                    self.limit = printable(str(message.get("limit") or ""))[:200]
                    self._done.set()
                case "error":
                    await self._note(str(message.get("detail"))[:200])
        if socket.close_code == 4403:
            self._end(Denied("You no longer have access to this session."))

    async def _read_keys(self) -> None:
        """Read keys even while disconnected: one of them detaches."""
        keys = Inlet(0)
        while data := await keys.read():
            before, leave, _ = data.partition(LEAVE)
            if len(self._typed) < MAX_BUFFERED_INPUT_BYTES:
                self._typed += before
                self._has_input.set()
            if leave:
                break
        self._detach()

    async def _send(self) -> None:
        """Send buffered input once connected; input lost in transit is not sent again."""
        while True:
            await self._has_input.wait()
            self._has_input.clear()
            while self._typed and (socket := self._socket) is not None:
                frame = bytes(self._typed[:INPUT_FRAME_BYTES])
                self._typed = self._typed[INPUT_FRAME_BYTES:]
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

    def _detach(self) -> None:
        self.is_detached = True
        self._done.set()

    def _end(self, problem: HutchError) -> None:
        self.problem = problem
        self._done.set()


def _say(text: str) -> None:
    sys.stderr.write(f"hutch: {text}\n")
    sys.stderr.flush()
