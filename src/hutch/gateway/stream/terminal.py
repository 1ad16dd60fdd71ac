"""A terminal over a WebSocket: bytes both ways, and a few JSON texts about them.

`/api/v1/sessions/{id}/terminals/{id}/socket?resume=SEQ&mode=one`. What is printed comes as
binary frames, what is typed goes as binary frames. A client acknowledges what it has shown;
the program waits for who is too far behind, and who stays there is let go.
"""

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from typing import Any

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import BadRequest, HutchError, LimitReached, NotFound
from hutch.domain.untrusted_text import echo
from hutch.gateway.stream.frames import error_word, heard, number, place, word
from hutch.gateway.stream.socket import close, refuse, text
from hutch.gateway.stream.stream_grant import permit, permit_of
from hutch.gateway.stream.streams import LEFT, Ending, Stream, streams_of
from hutch.gateway.stream.terminal_writers import Mode, Seat, Writers
from hutch.gateway.stream.websocket_protocol import short_way_of
from hutch.sessions.interface import Viewer
from hutch.sessions.requests import ListTerminals

INPUT_BYTES = 64 * 1024  # in one frame
WINDOW_BYTES = 512 * 1024  # on their way to a client: with less, a far one would get little in a second
WAITING_BYTES = 1 << 20  # typed, and not yet read by the program
MAX_SIDE = 1000
RESIZE_S = 0.1  # every one is an event in the log, and a window that is dragged sends sixty a second
WATCHER_S = 2.0  # who only watches must not hold up those who work
EXIT_S, LOOK_S = 1.0, 0.01
MAX_ACK = 2**53
ENDED = Ending("exit", 1000, "the program has ended")


class TerminalSocket:
    """The route, as plain ASGI."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], Writers] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            try:
                allowed = await permit(scope, scope["path_params"]["session_id"])
                query, id = QueryParams(scope["query_string"]), scope["path_params"]["terminal_id"]
                mode = _mode(query.get("mode"))
                host, session_id = allowed.server.host, allowed.session.id
                resume = place(query.get("resume"), "resume")
                watched = host.terminal(session_id, id, resume=resume, masked=not allowed.writes)
                viewer = await stack.enter_async_context(watched)
                listed = await host.call(session_id, ListTerminals(), by=allowed.who.user.id)
                state = next((each for each in listed if each.id == id), None)
                if state is None:
                    raise NotFound(f"There is no terminal {echo(id, 40)} in this session.")
            except HutchError as error:
                await refuse(scope, receive, send, error)
                return
            await receive()
            stream = await stack.enter_async_context(streams_of(scope["app"]).open(allowed, send))
            await stream.put({"type": "websocket.accept"})
            hello = {"seq": viewer.seq, "missed_bytes": viewer.missed_bytes, "writes": allowed.writes}
            await stream.put(text(word("hello", **hello, columns=state.columns, rows=state.rows)))
            writers = self._writers.setdefault((session_id, id), Writers())
            try:
                await _Watching(stream, viewer, receive, writers).run(mode)
            finally:
                if not writers.seats:
                    self._writers.pop((session_id, id), None)


class _Watching:
    """One client at one terminal."""

    def __init__(self, stream: Stream, viewer: Viewer, receive: Receive, writers: Writers) -> None:
        self._stream, self._viewer, self._receive, self._writers = stream, viewer, receive, writers
        self._told = asyncio.Event()
        permit = permit_of(stream)
        self._short = short_way_of(permit.scope)
        self._seat = Seat(permit.who.user.name, permit.writes, self._told.set)
        self._sent = self._shown = self._granted = viewer.seq
        self._typed: deque[bytes] = deque()
        self._typed_bytes = 0
        self._typing = asyncio.Event()
        self._size: tuple[int, int] | None = None  # that the terminal is to have next
        self._resting: asyncio.TimerHandle | None = None

    async def run(self, mode: Mode) -> None:
        stream = self._stream
        self._renewed()
        stream.held_up_s = lambda: self._viewer.held_up_s
        stream.renewed = self._renewed
        self._writers.join(self._seat, mode)
        if self._short:
            self._short.hears = self._hear_at_once
        try:
            ending = await stream.run(self._show(), self._hear(), self._type(), self._tell())
        finally:
            if self._short:
                self._short.hears = None
            self._writers.leave(self._seat)
            if self._resting:
                self._resting.cancel()
        if ending is ENDED:
            await self._say_exit()
        await close(stream, ending, self._sent)

    async def _show(self) -> Ending:
        put, short = self._stream.put, self._short
        async for seq, data in self._viewer:
            if not (short and short.put(data)):
                await put({"type": "websocket.send", "bytes": data})
            self._sent = seq + len(data)
            self._grant()
        return ENDED

    def _grant(self) -> None:
        """Let the program go on as far as the client has shown what it printed, and a window beyond."""
        until = min(self._sent, self._shown + WINDOW_BYTES)
        if until > self._granted:
            self._viewer.acknowledge(until - self._granted)
            self._granted = until

    def _acknowledge(self, said: dict[str, Any]) -> None:
        count = number(said, "bytes", 0, MAX_ACK)
        if count > self._sent - self._shown:
            waiting = self._sent - self._shown
            raise BadRequest(f"{count} bytes cannot be acknowledged: {waiting} were sent and are not yet.")
        self._shown += count
        self._grant()

    async def _hear(self) -> Ending:
        """Never waits for the program: acknowledgements of what it prints must come through."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return LEFT
            try:
                if (data := message.get("bytes")) is not None:
                    self._take_in(data)
                else:
                    await self._obey(heard(message["text"]))
            except HutchError as error:
                clean = self._stream.permit.server.redactor.redact
                await self._stream.put(text(error_word(error, clean)))

    def _take_in(self, data: bytes) -> None:
        if len(data) > INPUT_BYTES:
            raise LimitReached(
                f"{len(data)} bytes are too many for one frame. Send at most {INPUT_BYTES}.",
                limit="terminal_input_bytes",
            )
        self._writers.check(self._seat)
        if self._typed_bytes + len(data) > WAITING_BYTES:
            raise LimitReached(
                f"The program has not read {self._typed_bytes} bytes that were typed before. Wait for it.",
                limit="terminal_input_bytes",
            )
        self._type_later(data)

    def _type_later(self, data: bytes) -> None:
        self._typed.append(data)
        self._typed_bytes += len(data)
        self._typing.set()

    def _hear_at_once(self, data: bytes, is_text: bool) -> bool:
        """Keys and acknowledgements, which most frames are; all others, and what is wrong, `_hear` hears."""
        try:
            if is_text:
                said = heard(data)
                if said["type"] != "ack":
                    return False
                self._acknowledge(said)
            elif self._typed_bytes or len(data) > INPUT_BYTES or not self._writers.may_write(self._seat):
                return False
            elif rest := data[self._viewer.write_some(data) :]:
                self._type_later(rest)
        except HutchError:
            return False
        return True

    async def _obey(self, said: dict[str, Any]) -> None:
        match said["type"]:
            case "ack":
                self._acknowledge(said)
            case "resize":
                size = number(said, "columns", 1, MAX_SIDE), number(said, "rows", 1, MAX_SIDE)
                self._writers.check(self._seat)
                self._size = size
                if self._resting is None:
                    self._resize()
            case "ping":
                await self._stream.put(text(word("pong")))
            case "take":
                self._writers.take(self._seat)
            case "share":
                self._writers.share(self._seat)
            case other:
                raise BadRequest(
                    f"There is no frame {echo(other, 40)} here; there is ack, resize, ping, take and share."
                )

    async def _type(self) -> Ending:
        while True:
            self._typing.clear()
            while self._typed:
                data = self._typed.popleft()
                try:
                    await self._viewer.write(data)
                except HutchError as error:
                    await self._stream.put(text(error_word(error)))
                self._typed_bytes -= len(data)
            await self._typing.wait()

    async def _tell(self) -> Ending:
        """Say who writes, whenever that has changed."""
        while True:
            await self._told.wait()
            self._told.clear()
            writers, holder = self._writers, self._writers.holder
            said = {"mode": writers.mode, "name": holder.name if holder else None}
            await self._stream.put(text(word("writer", **said, you=writers.may_write(self._seat))))

    async def _say_exit(self) -> None:
        code = self._viewer.exit_code
        for _ in range(int(EXIT_S / LOOK_S)):  # the terminal's end may be seen before its program's
            if code is not None:
                break
            await asyncio.sleep(LOOK_S)
            code = self._viewer.exit_code
        await self._stream.put(text(word("exit", exit_code=code)))

    def _resize(self) -> None:
        """Now, and not again for a moment; what comes meanwhile counts then, the last of it."""
        self._resting = None
        if self._size is not None:
            size, self._size = self._size, None
            self._resting = asyncio.get_running_loop().call_later(RESIZE_S, self._resize_again)
            self._viewer.resize(*size)

    def _resize_again(self) -> None:
        try:
            self._resize()
        except HutchError:
            self._size = None  # its program has ended, which is told anyhow

    def _renewed(self) -> None:
        """What somebody may do has changed, or not."""
        permit = permit_of(self._stream)
        patience_s = float(permit.server.loaded.settings.server.slow_client_s)
        self._stream.patience_s = patience_s if permit.writes else min(WATCHER_S, patience_s)
        self._writers.allow(self._seat, permit.writes)
        self._viewer.mask(not permit.writes)


def _mode(given: str | None) -> Mode:
    if given in (None, "", "many"):
        return "many"
    if given == "one":
        return "one"
    raise BadRequest(f"mode is one or many, not {echo(str(given), 40)}.")
