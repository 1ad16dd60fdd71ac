"""A run of `POST /api/code` as an SSE stream, or its result as one JSON response."""

from collections.abc import AsyncGenerator, Coroutine
from contextlib import aclosing
from typing import Any

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from hutch.domain.errors import HutchError, Unavailable
from hutch.domain.log_entry_audience import Reader, VisibleEntry
from hutch.domain.session import QueuedRun, Session
from hutch.domain.user import Caller
from hutch.flows.flow_services import Services
from hutch.gateway.request_and_response_bodies import to_json
from hutch.gateway.stream.open_streams import (
    COMPLETED,
    DISCONNECTED,
    FAILED,
    SLOW,
    Ending,
    Stream,
    streams_of,
)
from hutch.gateway.stream.prompt_to_pull_request_frames import (
    PER_ENTRY,
    UNFINISHED,
    WITH_DIFF,
    Lookahead,
    RunFrames,
    sse_closing,
    sse_frame,
    start_after,
    unseen,
)
from hutch.gateway.stream.run_log_follower import follow_run
from hutch.gateway.stream.sse import HEADERS, body_chunk, wait_for_disconnect
from hutch.gateway.stream.sse_and_websocket_frames import HEARTBEAT, parse_position, sse_opening
from hutch.gateway.stream.stream_permission import grant_watching
from hutch.sessions.file_and_command_requests import Diff
from hutch.system.clock_without_jumps import wall_ms

DIFF_CHARS = 1_000_000
RESULT_HEARTBEAT_INTERVAL_S = 2.0  # many clients give up after five seconds without a byte
STILL = b"\n"  # leading white space is valid in JSON
JSON_HEADERS = [(b"content-type", b"application/json"), *HEADERS[1:]]


class _RunResponse(Response):
    """A response about one run, which the client can request again at its location."""

    def __init__(self, caller: Caller, session: Session, run_id: str) -> None:
        """The route has authenticated the caller and checked that they may see the session."""
        super().__init__()
        self._caller = caller
        self._session = session
        self._run_id = run_id
        self.location = f"/api/code/{run_id}"


class CodeStream(_RunResponse):
    """The frames of one run, after the last one that the client has seen."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = await grant_watching(scope, self._caller, self._session)
        last_id = parse_position(Headers(scope=scope).get("last-event-id"), "Last-Event-ID") or 0
        headers = [*HEADERS, (b"location", self.location.encode())]
        async with streams_of(scope["app"]).open(allowed, send) as stream:

            async def heartbeat() -> None:
                await stream.put(body_chunk(HEARTBEAT))

            async def run() -> Ending:
                services = allowed.server.services
                run_frames = RunFrames(self._run_id)
                updates = _follow(services, allowed.session.id, allowed.reader, self._run_id)
                async with aclosing(updates):
                    async for update, again in updates:
                        frames = run_frames.frames(update, again=again)
                        if not isinstance(update, QueuedRun) and update.seq <= start_after(last_id):
                            frames = []
                        if frames and run_frames.result.get("outcome") in WITH_DIFF:
                            frames = await _with_diff(services, allowed.session.id, allowed.reader, frames)
                        for id, frame in unseen(frames, last_id):
                            await stream.put(body_chunk(sse_frame(id, frame)))
                        if run_frames.is_over:  # also if the client claims to have seen later frames
                            return COMPLETED
                return COMPLETED

            await stream.put({"type": "http.response.start", "status": 200, "headers": headers})
            await stream.put(body_chunk(sse_opening()))
            stream.heartbeat = heartbeat
            ending = await _end(stream, run(), receive)
            if ending in (SLOW, DISCONNECTED):
                stream.cut()
            elif ending is COMPLETED:
                await stream.put(body_chunk(b"", more=False))
            else:
                await stream.put(body_chunk(sse_closing(ending.reason, wall_ms()), more=False))


class CodeResult(_RunResponse):
    """The result of one run when it has ended; until then white space, so that proxies do not time out.

    HTTP/1.0 has no chunked responses: there the response is sent as a whole.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        allowed = await grant_watching(scope, self._caller, self._session)
        if allowed.server.closing:
            raise Unavailable(
                f"The server is stopping, but the run is not lost. GET {self.location} in a moment."
            )
        headers = [*JSON_HEADERS, (b"location", self.location.encode())]
        whole = scope["http_version"] == "1.0"
        is_sent = False
        async with streams_of(scope["app"]).open(
            allowed, send, heartbeat_s=RESULT_HEARTBEAT_INTERVAL_S
        ) as stream:

            async def heartbeat() -> None:
                await stream.put(body_chunk(STILL))

            async def begin(*more: tuple[bytes, bytes]) -> None:
                start = {"type": "http.response.start", "status": 200, "headers": [*headers, *more]}
                await stream.put(start)

            async def send_result(result_json: dict[str, Any]) -> None:
                nonlocal is_sent
                stream.heartbeat, is_sent = None, True
                body = to_json(result_json)
                if whole:
                    await begin((b"content-length", str(len(body)).encode()))
                await stream.put(body_chunk(body))

            async def run() -> Ending:
                session_id, reader = allowed.session.id, allowed.reader
                await send_result(await result(allowed.server.services, session_id, reader, self._run_id))
                return COMPLETED

            if not whole:
                await begin()
                await stream.put(body_chunk(STILL))
                stream.heartbeat = heartbeat
            ending = await _end(stream, run(), receive)
            if ending in (SLOW, DISCONNECTED) or (is_sent and ending is not COMPLETED):
                stream.cut()
                return
            # Too late for another status: the body must not look like a result.
            if ending is not COMPLETED:
                await send_result(self._unfinished(ending.reason))
            await stream.put(body_chunk(b"", more=False))

    def _unfinished(self, reason: str) -> dict[str, Any]:
        nothing = dict.fromkeys(("pullRequest", "diff", "tests", "usage"))
        message = f"This response ended before the run: {reason}. GET {self.location} for the result."
        ids = {"run": self._run_id, "session": self._session.id}
        return {**ids, "outcome": UNFINISHED, "message": message, **nothing}


async def _end(stream: Stream, run: Coroutine[Any, Any, Ending], receive: Receive) -> Ending:
    """Run the stream. The status was sent already, so an error becomes an ending."""
    try:
        return await stream.run(run, wait_for_disconnect(receive))
    except HutchError as error:
        reason = stream.grant.server.redactor.redact(str(error))
        return Ending(FAILED.name, FAILED.code, reason.rstrip("."))
    finally:
        stream.heartbeat = None


async def result(services: Services, session_id: Any, reader: Reader, run_id: str) -> dict[str, Any]:
    """The result of a run, once it has ended."""
    run_frames, pull, diff = RunFrames(run_id), None, None
    async with aclosing(_follow(services, session_id, reader, run_id)) as updates:
        async for update, again in updates:
            for _, frame in run_frames.frames(update, again=again):
                if frame["type"] == "pull_request":
                    pull = frame
            if run_frames.is_over:
                if run_frames.result["outcome"] in WITH_DIFF:
                    diff = await _diff(services, session_id, reader) or None
                break
    return {
        "run": run_id,
        "session": session_id,
        "outcome": run_frames.result.get("outcome", "failed"),
        "message": run_frames.result.get("message", ""),
        "pullRequest": _plain(pull),
        "diff": diff,
        "tests": _plain(run_frames.tests),
        "usage": _plain(run_frames.usage),
    }


async def _follow(
    services: Services, session_id: Any, reader: Reader, run_id: str
) -> AsyncGenerator[tuple[VisibleEntry | QueuedRun, bool]]:
    """The updates of a run, each with whether another delivery attempt follows."""
    lookahead = Lookahead(run_id, (await services.log.head(session_id)).seq)
    async with aclosing(follow_run(services, session_id, reader, run_id)) as updates:
        async for update in updates:
            if isinstance(update, QueuedRun):
                for pending in lookahead.release():
                    yield pending
                yield update, False
            else:
                for pending in lookahead.next(update):
                    yield pending


async def _with_diff(
    services: Services, session_id: Any, reader: Reader, frames: list[tuple[int, dict[str, Any]]]
) -> list[tuple[int, dict[str, Any]]]:
    """Put the diff before the other frames. Its number stays unused if there is no diff."""
    first = frames[0][0] - frames[0][0] % PER_ENTRY
    pending = [(first + number, frame) for number, (_, frame) in enumerate(frames, 1)]
    diff = await _diff(services, session_id, reader)
    timed = {"type": "diff", "diff": diff, "timestamp": frames[0][1]["timestamp"]}
    return [(first, timed), *pending] if diff else pending


async def _diff(services: Services, session_id: Any, reader: Reader) -> str:
    try:
        found = await services.host.call(session_id, Diff(read_only=True), by=reader.user_id)
    except HutchError as error:  # the session may have been removed
        return f"(no diff: {error})"
    text = services.redactor.redact(found.patch.decode(errors="replace"))
    return text if len(text) <= DIFF_CHARS else text[:DIFF_CHARS] + "\n(cut)\n"


def _plain(frame: dict[str, Any] | None) -> dict[str, Any] | None:
    return frame and {name: value for name, value in frame.items() if name != "type"}
