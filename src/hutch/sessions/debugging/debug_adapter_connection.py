"""A connection to a debug adapter in a jail.

Whatever comes from there is hostile. A response must answer a request that waits for it; a request from
the adapter is refused, since Hutch offers nothing that an adapter could ask for. The first bad frame ends
the connection.
"""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import structlog

from hutch.domain.errors import BadRequest, HutchError, Unavailable
from hutch.jail.interface import Process
from hutch.sessions.debugging.debug_adapter_frames import BadFrame, FrameReader, Throttle, encode_frame

REQUEST_TIMEOUT_S = 20.0
MAX_STDERR_BYTES = 2000
MAX_ERROR_CHARS = 500
logger = structlog.get_logger()

OnEvent = Callable[[str, dict[str, Any]], None]


class AdapterConnection:
    """Requests to an adapter, and its events."""

    def __init__(self, process: Process, on_event: OnEvent, on_lost: Callable[[str], None]) -> None:
        self._process, self._on_event, self._on_lost = process, on_event, on_lost
        self._seq = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._errors = bytearray()
        self._sending = asyncio.Lock()
        self._tasks = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._read_errors())]
        self._closed = False

    async def send_first(self, data: bytes, timeout_s: float) -> None:
        """Send bytes that the adapter reads before all requests."""
        await self._write(data, timeout_s)

    async def request(
        self, command: str, arguments: Mapping[str, Any], *, timeout_s: float = REQUEST_TIMEOUT_S
    ) -> dict[str, Any]:
        """The body of the response. An error of the adapter is a `BadRequest` with its message."""
        self._seq += 1
        seq = self._seq
        answered: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[seq] = answered
        try:
            message = {"seq": seq, "type": "request", "command": command, "arguments": dict(arguments)}
            await self._write(encode_frame(message), timeout_s)
            async with asyncio.timeout(timeout_s):
                response = await answered
        except TimeoutError:
            raise Unavailable(f"The debugger did not answer '{command}' within {timeout_s:g} s.") from None
        finally:
            self._waiting.pop(seq, None)
        if response.get("success") is not True:
            raise BadRequest(_message(response) or f"The debugger refused '{command}'.")
        body = response.get("body")
        return body if isinstance(body, dict) else {}

    async def close(self) -> None:
        """Kill the adapter and everything that it started."""
        self._closed = True
        for task in self._tasks:
            task.cancel()
        self._fail("The debugger has ended.")
        await self._process.kill()
        self._process.close()

    @property
    def is_closed(self) -> bool:
        """True when the adapter has ended, or nothing more is read from it."""
        return self._closed

    @property
    def error_text(self) -> str:
        """The end of the adapter's standard error."""
        return self._errors.decode(errors="replace").strip()

    async def _write(self, data: bytes, timeout_s: float) -> None:
        stdin = self._process.stdin
        if self._closed or stdin is None:
            raise Unavailable("The debugger has ended.")
        try:
            async with self._sending, asyncio.timeout(timeout_s):
                await stdin.write(data)
        except TimeoutError:
            self._lose("The debugger reads no requests.")
            raise Unavailable("The debugger reads no requests.") from None
        except OSError:
            raise Unavailable("The debugger has ended.") from None

    async def _read(self) -> None:
        frames, throttle, reason = FrameReader(), Throttle(), ""
        stdout = self._process.stdout
        try:
            while stdout is not None and (data := await stdout.read()):
                count = 0
                for message in frames.feed(data):
                    await self._take(message)
                    count += 1
                if delay_s := throttle.delay_s(len(data), count):
                    await asyncio.sleep(delay_s)
        except (BadFrame, OSError) as error:
            reason = str(error)
        self._lose(reason)

    async def _read_errors(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (data := await stderr.read()):
            self._errors = (self._errors + data)[-MAX_STDERR_BYTES:]

    async def _take(self, message: dict[str, Any]) -> None:
        kind = message.get("type")
        if kind == "response":
            asked = message.get("request_seq")
            waiting = self._waiting.get(asked) if type(asked) is int else None
            if waiting is not None and not waiting.done():
                waiting.set_result(message)
        elif kind == "event":
            name, body = message.get("event"), message.get("body")
            if isinstance(name, str):
                self._on_event(name, body if isinstance(body, dict) else {})
        elif kind == "request":
            self._seq += 1
            refusal = {"seq": self._seq, "type": "response", "success": False, "message": "not supported"}
            refusal |= {
                "request_seq": _whole(message.get("seq")),
                "command": str(message.get("command"))[:80],
            }
            with suppress(HutchError):
                await self._write(encode_frame(refusal), REQUEST_TIMEOUT_S)

    def _lose(self, reason: str) -> None:
        if not self._closed:
            self._closed = True
            self._fail(reason or "The debugger has ended.")
            self._on_lost(reason)

    def _fail(self, reason: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(Unavailable(reason))
                waiting.exception()  # its caller may have stopped waiting


def _whole(value: object) -> int:
    return value if type(value) is int else 0


def _message(response: Mapping[str, Any]) -> str:
    """The reason that an adapter gives; adapters use either of two fields for it."""
    body = response.get("body")
    error = body.get("error") if isinstance(body, dict) else None
    found = error.get("format") if isinstance(error, dict) else None
    text = found if isinstance(found, str) and found else response.get("message")
    return text[:MAX_ERROR_CHARS] if isinstance(text, str) else ""
