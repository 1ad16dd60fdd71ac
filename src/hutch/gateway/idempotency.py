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
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar, cast

import orjson
from fastapi import Depends, Header, Request, Response
from fastapi.exceptions import RequestValidationError
from sqlalchemy import Connection, and_, delete, insert, select, update
from starlette.exceptions import HTTPException

from hutch.domain.errors import Conflict, DoneUnrecorded, HutchError, NotRecorded
from hutch.domain.user import Who
from hutch.flows import changes, sessions
from hutch.flows.access import Action, check_may_open
from hutch.gateway.auth.who import Writer
from hutch.gateway.errors import KeyReused
from hutch.store.rows import Rows
from hutch.store.schema import answered_requests as table
from hutch.system.clock import STEADY, wall_ms

KEPT_MS = 24 * 3600 * 1000
SWEEP_S = 600.0
PATIENCE_S = 30.0  # for the first of two that came at once
LARGEST_BYTES = 64 * 1024  # of an answer that is kept
REPLAYED = "Idempotency-Replayed"
KEPT_HEADERS = ("content-type", "etag", "location")
OPENING = ("/fork", "/review")  # requests about one session that open another
BEING_ANSWERED, NOT_KEPT = 0, 1  # instead of a status

T = TypeVar("T")
Handle = Callable[[Request], Coroutine[Any, Any, Response]]


@dataclass(slots=True)
class Once:
    """One request with a key, or without; `keep` writes its answer beside what it asked for."""

    user_id: str = ""
    key: str = ""
    request_hash: str = ""
    atomic: bool = False  # the answer is written with what was asked for, or neither is
    kept: bool = False
    tried_ms: int = 0  # when a server ended while it did this; 0 when none did

    @property
    def mark(self) -> str:
        """What is the same each time that this is asked for, and not known to others; empty without a key."""
        said = f"{self.user_id}\n{self.key}\n{self.request_hash}"
        return hashlib.sha256(said.encode()).hexdigest()[:32] if self.key else ""

    def keep(self, of: Callable[[T], Response]) -> Callable[[Connection, T], None]:
        """For a flow, to be called in its transaction: the answer made of what came to be."""

        def write(connection: Connection, made: T) -> None:
            if self.key:
                self.write(connection, of(made))
                self.kept = True

        return write

    def write(self, connection: Connection, response: Response) -> None:
        headers = {name: response.headers[name] for name in KEPT_HEADERS if name in response.headers}
        body = bytes(getattr(response, "body", b""))  # a stream has none that could be kept
        fits = hasattr(response, "body") and len(body) <= LARGEST_BYTES
        values = {
            "status": response.status_code if fits else NOT_KEPT,
            "headers": orjson.dumps(headers).decode(),
            "body": body if fits else b"",
        }
        connection.execute(update(table).where(*self.mine()).values(values))

    def reserve(self, connection: Connection) -> None:
        """Note that it is being answered."""
        nothing = {"status": BEING_ANSWERED, "headers": "{}", "body": b""}
        who = {"user_id": self.user_id, "key": hash_key(self.key), "request_hash": self.request_hash}
        connection.execute(insert(table).values(**who, **nothing, at_ms=wall_ms()))

    def release(self, connection: Connection) -> None:
        """It was refused and has done nothing: it may be tried again."""
        connection.execute(delete(table).where(*self.mine(), table.c.status == BEING_ANSWERED))

    def is_same(self, found: Mapping[str, Any]) -> bool:
        return found["request_hash"] in (self.request_hash, "")  # of an erased one, nobody can tell

    def mine(self) -> tuple[Any, ...]:
        return table.c.user_id == self.user_id, table.c.key == hash_key(self.key)


@dataclass(slots=True)
class Replay(Exception):
    """It was answered before."""

    response: Response


@dataclass(slots=True)
class Answered:
    """The requests with keys of one server: those of the last day, and those under way."""

    rows: Rows
    under_way: dict[tuple[str, str], asyncio.Event] = field(default_factory=dict)
    swept: float = float("-inf")

    async def begin(self, once: Once) -> None:
        """Let a request go on as the first with its key; another hears what that was answered."""
        name = (once.user_id, once.key)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while name in self.under_way:
                    await self.under_way[name].wait()
        except TimeoutError:
            raise Conflict("The first request with this Idempotency-Key is still being answered.") from None
        self.under_way[name] = asyncio.Event()
        try:
            found = await self.rows.change(self._take(once))
            if found is not None:
                raise _again(found, once)
        except BaseException:
            self._end(once)
            raise

    async def finish(self, once: Once, response: Response) -> None:
        """Keep what was answered, unless that was done already."""
        try:
            if not once.kept:
                await self.rows.change(lambda connection: once.write(connection, response))
        finally:
            self._end(once)

    async def refused(self, once: Once) -> None:
        """Nothing came of it, unless an answer was kept before it failed."""
        try:
            await self.rows.change(once.release)
        finally:
            self._end(once)

    def failed(self, once: Once) -> None:
        """Nobody knows what came of it; the note stays."""
        self._end(once)

    def _end(self, once: Once) -> None:
        done = self.under_way.pop((once.user_id, once.key), None)
        if done:
            done.set()

    def _take(self, once: Once) -> Callable[[Connection], Mapping[str, Any] | None]:
        sweep = time.monotonic() - self.swept > SWEEP_S
        if sweep:
            self.swept = time.monotonic()

        def take(connection: Connection) -> Mapping[str, Any] | None:
            old = table.c.at_ms < STEADY.now_ms() - KEPT_MS
            connection.execute(delete(table).where(old if sweep else old & and_(*once.mine())))
            row = connection.execute(select(table).where(*once.mine())).mappings().first()
            found = None if row is None else {str(name): value for name, value in row.items()}
            if found is not None and found["status"] == BEING_ANSWERED and once.is_same(found):
                if not once.atomic:
                    return found
                once.release(connection)  # nothing came of it before a crash
                once.tried_ms = found["at_ms"]
                found = None
            if found is None:
                once.reserve(connection)
            return found

        return take


def _again(found: Mapping[str, Any], once: Once) -> Exception:
    """What a request hears whose key was used before."""
    if not once.is_same(found):
        return KeyReused("This Idempotency-Key was used for another request. Take a new one for each.")
    if found["status"] == BEING_ANSWERED:
        return Conflict(
            "The server ended while it did this, and nobody knows how far it came. Look at what is there, "
            "and send it with another Idempotency-Key if it is still wanted."
        )
    if found["status"] == NOT_KEPT:
        return Conflict("This was done already, and its answer was not kept: it was too long, or was erased.")
    headers = {**orjson.loads(found["headers"]), REPLAYED: "true"}
    return Replay(Response(found["body"], found["status"], headers))


def hash_key(key: str) -> str:
    """How a key is kept."""
    return hashlib.sha256(key.encode()).hexdigest()


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
        who: Writer,
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
    ) -> Once:
        if idempotency_key is None:
            return Once()
        asked = f"{request.method} {request.url.path}?{request.url.query}\n".encode()
        body = await request.body()
        digest = hashlib.sha256(asked + body).hexdigest()
        once = Once(who.user.id, idempotency_key, digest, self._atomic)
        try:
            await answered_of(request).begin(once)
        except Replay:
            action = self._action(body) if callable(self._action) else self._action
            await _authorise(request, who, action)
            raise
        request.state.once = once
        return once


async def _authorise(request: Request, who: Who, action: Action) -> None:
    """Refuse a caller who could not make this request now. Whether they are known was checked before."""
    site, names = request.app.state.server.site, request.path_params
    if session_id := names.get("session_id"):
        await sessions.allowed(site, who, session_id, action)
    elif change_id := names.get("change_id"):
        await changes.find(site, who, change_id, action)
    elif run_id := names.get("run_id"):
        await sessions.allowed(site, who, (await sessions.run(site, who, run_id)).session_id, action)
    if not names or request.url.path.endswith(OPENING):
        check_may_open(who)


ByKey = Annotated[Once, Depends(Key())]
ByKeyWithRow = Annotated[Once, Depends(Key(atomic=True))]
ByKeyToManage = Annotated[Once, Depends(Key(action="manage"))]


async def seen_through(request: Request, handle: Handle) -> Response:
    """Answer a request, and see to it that what its key stands for is noted."""
    try:
        response = await handle(request)
    except Replay as replay:
        return replay.response
    except (NotRecorded, DoneUnrecorded):  # it was done, and must not be done again
        if once := getattr(request.state, "once", None):
            answered_of(request).failed(once)
        raise
    except (HutchError, RequestValidationError, HTTPException):
        if once := getattr(request.state, "once", None):
            await answered_of(request).refused(once)
        raise
    except BaseException:
        if once := getattr(request.state, "once", None):
            answered_of(request).failed(once)
        raise
    if once := getattr(request.state, "once", None):
        await answered_of(request).finish(once, response)
    return response
