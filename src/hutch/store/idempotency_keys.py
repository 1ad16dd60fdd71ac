"""Requests with an idempotency key, as rows: reserved while in progress, then the response, for a day."""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, and_, delete, insert, select, update

from hutch.store.schema import answered_requests as table
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import STEADY, wall_ms
from hutch.system.lazy_dataclass import dataclass

RETENTION_MS = 24 * 3600 * 1000
IN_PROGRESS, NOT_STORED = 0, 1  # instead of a status

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RequestKey:
    """Identifies a repeated request."""

    user_id: str
    key: str  # chosen by the client; the row stores its hash
    request_hash: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A stored response."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True, slots=True)
class EarlierRequest:
    """The request that used this key before."""

    answer: Answer
    at_ms: int
    is_same: bool  # False when the key was used for another request


@dataclass(frozen=True, slots=True)
class StoredAnswer(Generic[T]):
    """The response to a request, written in the same transaction as its effect."""

    request: RequestKey
    render: Callable[[T], Answer]

    def write(self, connection: Connection, made: T) -> None:
        _keep(connection, self.request, self.render(made))


class AnsweredRequests:
    """The requests with keys of the last day."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def begin(
        self, request: RequestKey, *, atomic: bool, sweep: bool
    ) -> tuple[EarlierRequest | None, int]:
        """Reserve a key; if it was used before, return the earlier request instead.

        With `atomic`, an earlier request without a response was cut short by a crash and had no effect: it
        starts again, and the second value is the time of the first attempt. Otherwise that is 0. With
        `sweep`, all expired responses are deleted.
        """

        def begin(connection: Connection) -> tuple[EarlierRequest | None, int]:
            old = table.c.at_ms < STEADY.now_ms() - RETENTION_MS
            connection.execute(delete(table).where(old if sweep else old & and_(*_is(request))))
            earlier, tried_ms = _find(connection, request), 0
            if earlier and earlier.is_same and earlier.answer.status == IN_PROGRESS and atomic:
                _release(connection, request)
                tried_ms, earlier = earlier.at_ms, None
            if earlier is None:
                _reserve(connection, request)
            return earlier, tried_ms

        return await self._rows.change(begin)

    async def store(self, request: RequestKey, answer: Answer) -> None:
        await self._rows.change(lambda connection: _keep(connection, request, answer))

    async def release(self, request: RequestKey) -> None:
        """Free the key of a refused request, so that it can be sent again. A stored response stays."""
        await self._rows.change(lambda connection: _release(connection, request))


def hash_key(key: str) -> str:
    """The form in which a key is stored."""
    return hashlib.sha256(key.encode()).hexdigest()


def _is(request: RequestKey) -> tuple[Any, ...]:
    return table.c.user_id == request.user_id, table.c.key == hash_key(request.key)


def _find(connection: Connection, request: RequestKey) -> EarlierRequest | None:
    row = connection.execute(select(table).where(*_is(request))).first()
    if row is None:
        return None
    is_same = row.request_hash in (request.request_hash, "")  # erased: any request may have used it
    return EarlierRequest(Answer(row.status, json.loads(row.headers), row.body), row.at_ms, is_same)


def _reserve(connection: Connection, request: RequestKey) -> None:
    names = {"user_id": request.user_id, "key": hash_key(request.key), "request_hash": request.request_hash}
    nothing = {"status": IN_PROGRESS, "headers": "{}", "body": b""}
    connection.execute(insert(table).values(**names, **nothing, at_ms=wall_ms()))


def _keep(connection: Connection, request: RequestKey, answer: Answer) -> None:
    values = {"status": answer.status, "headers": json.dumps(dict(answer.headers)), "body": answer.body}
    connection.execute(update(table).where(*_is(request)).values(values))


def _release(connection: Connection, request: RequestKey) -> None:
    connection.execute(delete(table).where(*_is(request), table.c.status == IN_PROGRESS))
