"""A terminal over a WebSocket: bytes both ways, and a few JSON texts about them.

`/api/v1/sessions/{id}/terminals/{id}/socket?resume=SEQ&mode=one`. Output and input are
binary frames. A client acknowledges the output that it has displayed;
the program waits for clients that are too far behind, and they are disconnected after a while.
"""

import asyncio
from collections import deque
from contextlib import AsyncExitStack
from typing import Any

from starlette.datastructures import QueryParams
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import BadRequest, HutchError, LimitReached, NotFound
from hutch.domain.one_line_text import echo
from hutch.gateway.stream.abortable_uvicorn_protocols import direct_channel_of
from hutch.gateway.stream.event_and_input_websocket import close, refuse, text
from hutch.gateway.stream.open_streams import DISCONNECTED, Ending, Stream, streams_of
from hutch.gateway.stream.sse_and_websocket_frames import (
    control_frame,
    error_frame,
    parse_frame,
    parse_number,
    parse_position,
)
from hutch.gateway.stream.stream_permission import grant_of, grant_stream
from hutch.gateway.stream.terminal_write_access import Mode, TerminalClient, TerminalWriters
from hutch.sessions.file_and_command_requests import ListTerminals
from hutch.sessions.interface import Viewer

MAX_INPUT_BYTES = 64 * 1024  # in one frame
WINDOW_BYTES = 512 * 1024  # in flight to a client: less would slow down distant clients
MAX_UNREAD_INPUT_BYTES = 1 << 20  # typed, and not yet read by the program
MAX_SIDE = 1000
RESIZE_INTERVAL_S = 0.1  # each is a log event, and a dragged window sends sixty a second
WATCHER_TIMEOUT_S = 2.0  # watchers must not hold up writers
EXIT_TIMEOUT_S, EXIT_POLL_INTERVAL_S = 1.0, 0.01
MAX_ACK = 2**53
ENDED = Ending("exit", 1000, "the program has ended")


class TerminalSocket:
    """The route, as plain ASGI."""

    def __init__(self) -> None:
        self._writers: dict[tuple[str, str], TerminalWriters] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with AsyncExitStack() as stack:
            try:
                allowed = await grant_stream(scope, scope["path_params"]["session_id"], types=True)
                query, id = QueryParams(scope["query_string"]), scope["path_params"]["terminal_id"]
                mode = _mode(query.get("mode"))
                host, session_id = allowed.server.host, allowed.session.id
                resume = parse_position(query.get("resume"), "resume")
                watched = host.terminal(
                    session_id, id, resume=resume, masked=not allowed.writes, by=allowed.caller.user.id
                )
                viewer = await stack.enter_async_context(watched)
                listed = await host.call(session_id, ListTerminals(), by=allowed.caller.user.id)
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
            await stream.put(text(control_frame("hello", **hello, columns=state.columns, rows=state.rows)))
            writers = self._writers.setdefault((session_id, id), TerminalWriters())
            try:
                await _Connection(stream, viewer, receive, writers).run(mode)
            finally:
                if not writers.clients:
                    self._writers.pop((session_id, id), None)


class _Connection:
    """One client at one terminal."""

    def __init__(self, stream: Stream, viewer: Viewer, receive: Receive, writers: TerminalWriters) -> None:
        self._stream, self._viewer, self._writers = stream, viewer, writers
        self._receive = stream.confirmed(receive)
        self._writers_changed = asyncio.Event()
        grant = grant_of(stream)
        self._direct = direct_channel_of(grant.scope)
        self._client = TerminalClient(grant.caller.user.name, grant.writes, self._writers_changed.set)
        self._sent = self._acknowledged = self._released = viewer.seq
        self._typed: deque[bytes] = deque()
        self._typed_bytes = 0
        self._typing = asyncio.Event()
        self._size: tuple[int, int] | None = None  # that the terminal is to have next
        self._resize_timer: asyncio.TimerHandle | None = None

    async def run(self, mode: Mode) -> None:
        stream = self._stream
        self._renewed()
        stream.blocking_s = lambda: self._viewer.blocking_s
        stream.renewed = self._renewed
        self._viewer.on_agent_typing(self._writers_changed.set)
        self._writers.join(self._client, mode)
        if self._direct:
            self._direct.on_message = self._handle_immediately
        try:
            ending = await stream.run(
                self._send_output(), self._receive_frames(), self._write_typed(), self._send_writers()
            )
        finally:
            if self._direct:
                self._direct.on_message = None
            self._writers.leave(self._client)
            if self._resize_timer:
                self._resize_timer.cancel()
        if ending is ENDED:
            await self._send_exit()
        await close(stream, ending, self._sent)

    async def _send_output(self) -> Ending:
        put, short = self._stream.put, self._direct
        async for seq, data in self._viewer:
            if not (short and self._stream.is_confirmed and short.put(data)):
                await put({"type": "websocket.send", "bytes": data})
            self._sent = seq + len(data)
            self._release_output()
        return ENDED

    def _release_output(self) -> None:
        """Let the program continue up to one window beyond what the client has acknowledged."""
        until = min(self._sent, self._acknowledged + WINDOW_BYTES)
        if until > self._released:
            self._viewer.acknowledge(until - self._released)
            self._released = until

    def _acknowledge(self, frame: dict[str, Any]) -> None:
        count = parse_number(frame, "bytes", 0, MAX_ACK)
        if count > self._sent - self._acknowledged:
            waiting = self._sent - self._acknowledged
            raise BadRequest(f"{count} bytes cannot be acknowledged: only {waiting} are outstanding.")
        self._acknowledged += count
        self._release_output()

    async def _receive_frames(self) -> Ending:
        """Never waits for the program, so that acknowledgements are always processed."""
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return DISCONNECTED
            try:
                if (data := message.get("bytes")) is not None:
                    self._queue_input(data)
                else:
                    await self._handle_frame(parse_frame(message["text"]))
            except HutchError as error:
                clean = self._stream.grant.server.redactor.redact
                await self._stream.put(text(error_frame(error, clean)))

    def _queue_input(self, data: bytes) -> None:
        if len(data) > MAX_INPUT_BYTES:
            raise LimitReached(
                f"{len(data)} bytes are too many for one frame. The maximum is {MAX_INPUT_BYTES}.",
                limit="terminal_input_bytes",
            )
        self._writers.check(self._client)
        if self._typed_bytes + len(data) > MAX_UNREAD_INPUT_BYTES:
            raise LimitReached(
                f"The program has not read {self._typed_bytes} bytes that were typed before. Wait for it.",
                limit="terminal_input_bytes",
            )
        self._buffer_input(data)

    def _buffer_input(self, data: bytes) -> None:
        self._typed.append(data)
        self._typed_bytes += len(data)
        self._typing.set()

    def _handle_immediately(self, data: bytes, is_text: bool) -> bool:
        """Handle keys and acknowledgements, which are most frames; leave the rest to `_receive_frames`."""
        if not self._stream.is_confirmed:
            return False
        try:
            if is_text:
                frame = parse_frame(data)
                if frame["type"] != "ack":
                    return False
                self._acknowledge(frame)
            elif (
                self._typed_bytes or len(data) > MAX_INPUT_BYTES or not self._writers.may_write(self._client)
            ):
                return False
            elif rest := data[self._viewer.write_some(data) :]:
                self._buffer_input(rest)
        except HutchError:
            return False
        return True

    async def _handle_frame(self, frame: dict[str, Any]) -> None:
        match frame["type"]:
            case "ack":
                self._acknowledge(frame)
            case "resize":
                size = parse_number(frame, "columns", 1, MAX_SIDE), parse_number(frame, "rows", 1, MAX_SIDE)
                self._writers.check(self._client)
                self._size = size
                if self._resize_timer is None:
                    self._resize()
            case "ping":
                await self._stream.put(text(control_frame("pong")))
            case "take_over":
                self._writers.take_over(self._client)
            case "share":
                self._writers.share(self._client)
            case other:
                raise BadRequest(
                    f"There is no frame {echo(other, 40)} here; "
                    "there is ack, resize, ping, take_over and share."
                )

    async def _write_typed(self) -> Ending:
        while True:
            self._typing.clear()
            while self._typed:
                data = self._typed.popleft()
                await self._stream.confirm()
                try:
                    await self._viewer.write(data)
                except HutchError as error:
                    await self._stream.put(text(error_frame(error)))
                self._typed_bytes -= len(data)
            await self._typing.wait()

    async def _send_writers(self) -> Ending:
        """Send the current writer, whenever it has changed."""
        while True:
            await self._writers_changed.wait()
            self._writers_changed.clear()
            writers, holder = self._writers, self._writers.holder
            frame: dict[str, Any] = {"mode": writers.mode, "name": holder.name if holder else None}
            frame["agent"] = self._viewer.agent_types
            await self._stream.put(
                text(control_frame("writer", **frame, you=writers.may_write(self._client)))
            )

    async def _send_exit(self) -> None:
        for _ in range(int(EXIT_TIMEOUT_S / EXIT_POLL_INTERVAL_S)):
            if self._viewer.has_result:  # the terminal may close before its program has exited
                break
            await asyncio.sleep(EXIT_POLL_INTERVAL_S)
        frame = {"exit_code": self._viewer.exit_code, "limit": self._viewer.limit}
        await self._stream.put(text(control_frame("exit", **frame)))

    def _resize(self) -> None:
        """Resize now; of the sizes that come within the interval, the last is applied at its end."""
        self._resize_timer = None
        if self._size is not None:
            size, self._size = self._size, None
            self._resize_timer = asyncio.get_running_loop().call_later(RESIZE_INTERVAL_S, self._resize_again)
            self._viewer.resize(*size)

    def _resize_again(self) -> None:
        try:
            self._resize()
        except HutchError:
            self._size = None  # its program has ended, which is reported separately

    def _renewed(self) -> None:
        """Apply the rights of the renewed grant."""
        grant = grant_of(self._stream)
        slow_client_timeout_s = float(grant.server.loaded.settings.server.slow_client_s)
        self._stream.slow_client_timeout_s = (
            slow_client_timeout_s if grant.writes else min(WATCHER_TIMEOUT_S, slow_client_timeout_s)
        )
        self._writers.allow(self._client, grant.writes)
        self._viewer.mask(not grant.writes)


def _mode(mode: str | None) -> Mode:
    if mode in (None, "", "many"):
        return "many"
    if mode == "one":
        return "one"
    raise BadRequest(f"mode is one or many, not {echo(str(mode), 40)}.")
