"""A request that is sent twice is done once: the header `Idempotency-Key`.

The answer to a POST with a key is kept for a day, for that user, and given again to the
same request. Where what was asked for is a row of the database, the answer is written
in the same transaction: after a crash either both are there or neither. For the rest
a note is written first; when only that is found after a crash, nobody knows how far it
came, and the caller is told so rather than served twice.

A kept answer is given only to a caller who may still make the request: a share, a role
or a scope may have been taken away since.
"""

import asyncio
import hashlib
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from hutch.domain.errors import Conflict, DoneUnrecorded, HutchError, NotRecorded
from hutch.domain.user import Caller
from hutch.flows import changes, sessions
from hutch.flows.access import Action, check_may_open
from hutch.gateway.auth.caller import Writer
from hutch.gateway.errors import KeyReused
from hutch.store.answered_requests import (
    IN_PROGRESS,
    NOT_STORED,
    Answer,
    AnsweredRequests,
    EarlierRequest,
    RequestKey,
    StoredAnswer,
)
from hutch.store.rows import ExtraWrite, Rows

SWEEP_INTERVAL_S = 600.0
TIMEOUT_S = 30.0  # for the first of two that came at once
MAX_BYTES = 64 * 1024  # of an answer that is kept
REPLAYED = "Idempotency-Replayed"
STORED_HEADERS = ("content-type", "etag", "location")
OPENING = ("/fork", "/review")  # requests about one session that open another

T = TypeVar("T")
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class KeyedRequest:
    """One request with a key, or without; `store_answer` writes its answer beside what it asked for."""

    request: RequestKey | None = None
    is_stored: bool = False
    tried_ms: int = 0  # when a server ended while it did this; 0 when none did

    @property
    def mark(self) -> str:
        """What is the same each time that this is asked for, and not known to others; empty without a key."""
        if self.request is None:
            return ""
        parts = f"{self.request.user_id}\n{self.request.key}\n{self.request.request_hash}"
        return hashlib.sha256(parts.encode()).hexdigest()[:32]

    def store_answer(self, of: Callable[[T], Response]) -> ExtraWrite[T] | None:
        """For a flow, which writes the answer in its transaction; None without a key."""
        if self.request is None:
            return None

        def render(made: T) -> Answer:
            self.is_stored = True
            return to_answer(of(made))

        return StoredAnswer(self.request, render)


@dataclass(slots=True)
class Replay(Exception):
    """It was answered before."""

    response: Response


@dataclass(slots=True)
class Answered:
    """The requests with keys of one server: those of the last day, and those under way."""

    rows: Rows
    in_progress: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    swept_at: float = float("-inf")

    async def begin(self, request: RequestKey, *, atomic: bool) -> KeyedRequest:
        """Let a request go on as the first with its key; another hears what that was answered."""
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
        """Keep what was answered, unless that was done already."""
        if keyed.request is None:
            return
        try:
            if not keyed.is_stored:
                await AnsweredRequests(self.rows).store(keyed.request, to_answer(response))
        finally:
            self._end(keyed.request)

    async def refused(self, keyed: KeyedRequest) -> None:
        """Nothing came of it, unless an answer was kept before it failed."""
        if keyed.request is None:
            return
        try:
            await AnsweredRequests(self.rows).release(keyed.request)
        finally:
            self._end(keyed.request)

    def failed(self, keyed: KeyedRequest) -> None:
        """Nobody knows what came of it; the note stays."""
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
    """A response as it is kept: without its body when that is a stream, or too long."""
    headers = {name: response.headers[name] for name in STORED_HEADERS if name in response.headers}
    body = getattr(response, "body", None)
    if body is None or len(body) > MAX_BYTES:
        return Answer(NOT_STORED, headers, b"")
    return Answer(response.status_code, headers, bytes(body))


def _answer_to_reused_key(earlier: EarlierRequest) -> Exception:
    """What a request hears whose key was used before."""
    answer = earlier.answer
    if not earlier.is_same:
        return KeyReused("This Idempotency-Key was used for another request. Take a new one for each.")
    if answer.status == IN_PROGRESS:
        return Conflict(
            "The server ended while it did this, and nobody knows how far it came. Look at what is there, "
            "and send it with another Idempotency-Key if it is still wanted."
        )
    if answer.status == NOT_STORED:
        return Conflict("This was done already, and its answer was not kept: it was too long, or was erased.")
    return Replay(Response(answer.body, answer.status, {**answer.headers, REPLAYED: "true"}))


def answered_of(request: Request) -> Answered:
    return cast(Answered, request.app.state.answered)


ActionOf = Callable[[bytes], Action]  # by the body of the request


class Key:
    """A dependency that lets a POST with a key be done once; every POST has it.

    `action` is what the request does with the session, change or run that its path names.
    """

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
                description="Made up by the caller. The same request with the same key is done once, and "
                "answered again for 24 hours.",
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
    """Refuse a caller who could not make this request now. Whether they are known was checked before."""
    services, names = request.app.state.server.services, request.path_params
    if session_id := names.get("session_id"):
        await sessions.allowed(services, caller, session_id, action)
    elif change_id := names.get("change_id"):
        await changes.find(services, caller, change_id, action)
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
    """Answer a request, and see to it that what its key stands for is noted."""
    try:
        response = await handle(request)
    except Replay as replay:
        return replay.response
    except (NotRecorded, DoneUnrecorded):  # it was done, and must not be done again
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
