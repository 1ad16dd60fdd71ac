"""The header `Idempotency-Key`: a repeated request is executed once.

The response to a POST with a key is stored for a day and user, and replayed to the same
request. If the request creates a database row, one transaction writes row and response.
Otherwise a marker is written first. After a crash that left only the marker, the outcome
is unknown: the caller gets an error, and the request is not executed again.
A response is replayed only to callers who may still make the request.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import field
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from hutch.domain.errors import Conflict, DoneUnrecorded, HutchError, NotRecorded
from hutch.domain.user import Caller
from hutch.flows import changes_visible_to_caller, sessions
from hutch.flows.session_permissions import Action, check_may_open
from hutch.gateway.auth.caller_dependency import Writer
from hutch.gateway.http_error_table import KeyReused
from hutch.store.idempotency_keys import (
    IN_PROGRESS,
    NOT_STORED,
    Answer,
    AnsweredRequests,
    EarlierRequest,
    RequestKey,
    StoredAnswer,
)
from hutch.store.table_access_interface import ExtraWrite, Rows
from hutch.system.lazy_dataclass import dataclass

SWEEP_INTERVAL_S = 600.0
TIMEOUT_S = 30.0  # for the first of two concurrent requests
MAX_BYTES = 64 * 1024  # of a response that is stored
REPLAYED = "Idempotency-Replayed"
STORED_HEADERS = ("content-type", "etag", "location")
OPENING = ("/fork", "/review")  # requests about one session that open another

T = TypeVar("T")
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class KeyedRequest:
    """One request, with or without a key."""

    request: RequestKey | None = None
    is_stored: bool = False
    tried_ms: int = 0  # when a server ended while executing this; 0 if none did

    @property
    def mark(self) -> str:
        """A secret that is the same for each repetition of the request; empty without a key."""
        if self.request is None:
            return ""
        parts = f"{self.request.user_id}\n{self.request.key}\n{self.request.request_hash}"
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def store_answer(self, of: Callable[[T], Response]) -> ExtraWrite[T] | None:
        """For a flow, which writes the response in its transaction; None without a key."""
        if self.request is None:
            return None

        def render(made: T) -> Answer:
            self.is_stored = True
            return to_answer(of(made))

        return StoredAnswer(self.request, render)


@dataclass(slots=True)
class Replay(Exception):
    """The request was answered before."""

    response: Response


@dataclass(slots=True)
class Answered:
    """The keyed requests of one server: those of the last day, and those in progress."""

    rows: Rows
    in_progress: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    swept_at: float = float("-inf")

    async def begin(self, request: RequestKey, *, atomic: bool) -> KeyedRequest:
        """Start the first request with a key. Repetitions raise `Replay` or an error."""
        name = (request.user_id, request.key)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                while name in self.in_progress:
                    await self.in_progress[name].wait()
        except TimeoutError:
            raise Conflict("The first request with this Idempotency-Key is still being answered.") from None
        self.in_progress[name] = asyncio.Event()
        try:
            earlier, tried_ms = await AnsweredRequests(self.rows).begin(
                request, atomic=atomic, sweep=self._is_sweep_due()
            )
            if earlier is not None:
                raise _answer_to_reused_key(earlier)
        except BaseException:
            self._end(request)
            raise
        return KeyedRequest(request, tried_ms=tried_ms)

    async def finish(self, keyed: KeyedRequest, response: Response) -> None:
        """Store the response, unless that was done already."""
        if keyed.request is None:
            return
        try:
            if not keyed.is_stored:
                await AnsweredRequests(self.rows).store(keyed.request, to_answer(response))
        finally:
            self._end(keyed.request)

    async def refused(self, keyed: KeyedRequest) -> None:
        """Release the key: the request had no effect, unless a response was stored before it failed."""
        if keyed.request is None:
            return
        try:
            await AnsweredRequests(self.rows).release(keyed.request)
        finally:
            self._end(keyed.request)

    def failed(self, keyed: KeyedRequest) -> None:
        """The outcome is unknown: the marker stays."""
        if keyed.request is not None:
            self._end(keyed.request)

    def _end(self, request: RequestKey) -> None:
        done = self.in_progress.pop((request.user_id, request.key), None)
        if done:
            done.set()

    def _is_sweep_due(self) -> bool:
        is_due = time.monotonic() - self.swept_at > SWEEP_INTERVAL_S
        if is_due:
            self.swept_at = time.monotonic()
        return is_due


def to_answer(response: Response) -> Answer:
    """A response in stored form: without its body if that is a stream or too long."""
    headers = {name: response.headers[name] for name in STORED_HEADERS if name in response.headers}
    body = getattr(response, "body", None)
    if body is None or len(body) > MAX_BYTES:
        return Answer(NOT_STORED, headers, b"")
    return Answer(response.status_code, headers, bytes(body))


def _answer_to_reused_key(earlier: EarlierRequest) -> Exception:
    """The response for a reused idempotency key."""
    answer = earlier.answer
    if not earlier.is_same:
        return KeyReused("This Idempotency-Key was used for another request. Use a new key for each request.")
    if answer.status == IN_PROGRESS:
        return Conflict(
            "The server stopped during this request, and its outcome is unknown. Check the result, and send "
            "the request with a new Idempotency-Key if it is still needed."
        )
    if answer.status == NOT_STORED:
        return Conflict("This was done already. Its response was not stored: it was too long, or was erased.")
    return Replay(Response(answer.body, answer.status, {**answer.headers, REPLAYED: "true"}))


def answered_of(request: Request) -> Answered:
    return cast(Answered, request.app.state.answered)


ActionOf = Callable[[bytes], Action]  # by the body of the request


class Key:
    """A dependency of every POST. `action` is what it does with the session, change or run in its path."""

    def __init__(self, *, atomic: bool = False, action: Action | ActionOf = "input") -> None:
        self._atomic = atomic
        self._action = action

    async def __call__(
        self,
        request: Request,
        caller: Writer,
        idempotency_key: Annotated[
            str | None,
            Header(
                description="Chosen by the client. A repeated request with the same key is not executed "
                "again for 24 hours: it gets the same response.",
                max_length=200,
                pattern=r"^[!-~]+$",
                examples=["5f0c6d4e-0b9c-4a55-9f0e-7f6a1a8f7f10"],
            ),
        ] = None,
    ) -> KeyedRequest:
        if idempotency_key is None:
            return KeyedRequest()
        request_line = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
        body = await request.body()
        digest = hashlib.sha256(request_line + body).hexdigest()
        key = RequestKey(caller.user.id, idempotency_key, digest)
        try:
            keyed = await answered_of(request).begin(key, atomic=self._atomic)
        except Replay:
            action = self._action(body) if callable(self._action) else self._action
            await _authorise(request, caller, action)
            raise
        request.state.keyed = keyed
        return keyed


async def _authorise(request: Request, caller: Caller, action: Action) -> None:
    """Refuse an authenticated caller who may no longer make this request."""
    services, names = request.app.state.server.services, request.path_params
    if session_id := names.get("session_id"):
        await sessions.allowed(services, caller, session_id, action)
    elif change_id := names.get("change_id"):
        await changes_visible_to_caller.find(services, caller, change_id, action)
    elif run_id := names.get("run_id"):
        await sessions.allowed(
            services, caller, (await sessions.run(services, caller, run_id)).session_id, action
        )
    if not names or request.url.path.endswith(OPENING):
        check_may_open(caller)


ByKey = Annotated[KeyedRequest, Depends(Key())]
ByKeyWithRow = Annotated[KeyedRequest, Depends(Key(atomic=True))]
ByKeyToManage = Annotated[KeyedRequest, Depends(Key(action="manage"))]


async def handle_once(request: Request, handle: Handle) -> Response:
    """Handle a request, and record the outcome for its key."""
    try:
        response = await handle(request)
    except Replay as replay:
        return replay.response
    except (NotRecorded, DoneUnrecorded):  # it was executed, and must not be executed again
        if keyed := getattr(request.state, "keyed", None):
            answered_of(request).failed(keyed)
        raise
    except (HutchError, RequestValidationError, HTTPException):
        if keyed := getattr(request.state, "keyed", None):
            await answered_of(request).refused(keyed)
        raise
    except BaseException:
        if keyed := getattr(request.state, "keyed", None):
            answered_of(request).failed(keyed)
        raise
    if keyed := getattr(request.state, "keyed", None):
        await answered_of(request).finish(keyed, response)
    return response
