"""Limits the number of open streams per user.

A stream holds a descriptor, a task and a buffer for as long as the client likes. Each
stream takes a slot, which is released when the connection ends, or earlier if one
connection carries several streams.
"""

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send

from hutch.domain.errors import LimitReached
from hutch.domain.user import Caller

SLOTS = "hutch.stream_slots"  # in the scope: those of this connection


class StreamSlot:
    """One open stream of a user."""

    def __init__(self, stream_quota: "StreamQuota", user_id: str) -> None:
        self._stream_quota: StreamQuota | None = stream_quota
        self._user_id = user_id

    def release(self) -> None:
        """Release the slot; further calls do nothing."""
        stream_quota, self._stream_quota = self._stream_quota, None
        if stream_quota is not None:
            stream_quota.release_one(self._user_id)


class StreamQuota:
    """The number of open streams by user."""

    def __init__(self, max_per_user: int) -> None:
        self._max_per_user = max_per_user
        self._open: Counter[str] = Counter()

    def acquire(self, scope: Any, caller: Caller) -> StreamSlot:
        """One more stream of a user, over this connection."""
        self.check(caller)
        self._open[caller.user.id] += 1
        slot = StreamSlot(self, caller.user.id)
        scope[SLOTS].append(slot)
        return slot

    def check(self, caller: Caller) -> None:
        """Refuse callers who have the maximum number of streams."""
        if self._open[caller.user.id] >= self._max_per_user:
            raise LimitReached(
                f"{caller.user.name} has {self._max_per_user} streams open already. Close some, or raise "
                "server.streams_per_user.",
                limit="server.streams_per_user",
            )

    def release_one(self, user_id: str) -> None:
        self._open[user_id] -= 1
        if not self._open[user_id]:
            del self._open[user_id]

    def __len__(self) -> int:
        return self._open.total()


class StreamQuotaMiddleware:
    """Middleware that releases the slots of a connection when it ends."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        slots: list[StreamSlot] = []
        scope[SLOTS] = slots
        try:
            await self._app(scope, receive, send)
        finally:
            for slot in slots:
                slot.release()


def stream_quota_of(app: Any) -> StreamQuota:
    stream_quota: StreamQuota = app.state.stream_quota
    return stream_quota
