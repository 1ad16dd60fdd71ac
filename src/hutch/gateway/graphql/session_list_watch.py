"""Reports changed sessions to all watchers of the list; one database query serves them all."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.sessions import Shown
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.gateway_context import Server
from hutch.store.session_bulk_queries import BulkQueries
from hutch.system.clock_without_jumps import wall_ms

logger = structlog.get_logger("hutch.graphql")
POLL_INTERVAL_S = 0.5
OVERLAP_MS = 5000
MAX_PENDING = 1000  # sessions per watcher, each in its newest state


class Watch:
    """Polls the database while there are watchers."""

    def __init__(self, server: Server) -> None:
        self._batches = BulkQueries(server.rows)
        self._watchers: set[_Watcher] = set()
        self._polling: asyncio.Task[None] | None = None
        server.services.on_removed.append(self._removed)

    async def follow(self, scope: Any) -> AsyncGenerator[tuple[Shown, bool]]:
        """Yield each session that changes from now on and whether it was removed.

        The caller gets the sessions that they may see, and removed ones that they could see before.
        """
        watcher = _Watcher()
        self._watchers.add(watcher)
        if self._polling is None:
            self._polling = asyncio.ensure_future(self._poll())
        try:
            while True:
                changed, removed = await watcher.take()
                caller = await _recheck_caller(scope)
                user_id = None if caller.is_owner else caller.user.id
                seen = (
                    await self._batches.visible_to(user_id, [each.id for each in changed]) if changed else ()
                )
                for shown in await self._shown([each for each in changed if each.id in seen]):
                    yield shown, False
                gone = [each for each, audience in removed if user_id is None or user_id in audience]
                for shown in await self._shown(gone):
                    yield shown, True
        finally:
            self._watchers.discard(watcher)
            if not self._watchers and self._polling is not None:
                self._polling.cancel()
                self._polling = None

    def _removed(self, session: Session, audience: frozenset[str]) -> None:
        for watcher in self._watchers:
            watcher.remove(session, audience)

    async def _poll(self) -> None:
        since_ms = wall_ms()
        reported: dict[str, Session] = {}
        while True:
            await asyncio.sleep(POLL_INTERVAL_S)
            try:
                # Overlap: after the clock was set back, changes have earlier times.
                from_ms = min(since_ms, wall_ms() - OVERLAP_MS)
                found = await self._batches.changed_sessions(from_ms, MAX_PENDING)
            except HutchError as error:  # the next poll may succeed
                logger.warning("graphql.cannot_watch", error=str(error))
                continue
            changes = [each for each in found if reported.get(each.id) != each]
            if found:  # the next query starts at this same millisecond: later commits can still have it
                since_ms = found[-1].updated_ms
                reported = {each.id: each for each in found}
            for watcher in self._watchers if changes else ():
                watcher.put(changes)

    async def _shown(self, found: Sequence[Session]) -> list[Shown]:
        heads = await self._batches.heads([each.id for each in found]) if found else {}
        return [Shown(each, heads[each.id]) for each in found if each.id in heads]


async def _recheck_caller(scope: Any) -> Caller:
    """The caller as of now. This does not count towards the caller's request limit."""
    authenticator: Authenticator = scope["app"].state.authenticator
    now = await authenticator.recheck(scope)
    now.need("read")
    return now


class _Watcher:
    def __init__(self) -> None:
        self._pending: dict[str, Session] = {}
        self._removed_sessions: dict[str, tuple[Session, frozenset[str]]] = {}
        self._changed = asyncio.Event()

    def put(self, changes: list[Session]) -> None:
        for session in changes:
            if session.id in self._removed_sessions:
                continue  # the query ran just before the removal
            self._pending.pop(session.id, None)
            self._pending[session.id] = session
        while len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]
        self._changed.set()

    def remove(self, session: Session, audience: frozenset[str]) -> None:
        self._pending.pop(session.id, None)
        self._removed_sessions[session.id] = session, audience
        while len(self._removed_sessions) > MAX_PENDING:
            del self._removed_sessions[next(iter(self._removed_sessions))]
        self._changed.set()

    async def take(self) -> tuple[list[Session], list[tuple[Session, frozenset[str]]]]:
        """Wait for changes. Returns the changed sessions, and the removed ones with their audience."""
        await self._changed.wait()
        self._changed.clear()
        taken, self._pending = self._pending, {}
        gone, self._removed_sessions = self._removed_sessions, {}
        return list(taken.values()), list(gone.values())


def watch_of(app: Any, server: Server) -> Watch:
    """The watch of an application, created on first use."""
    found = getattr(app.state, "watch", None)
    if not isinstance(found, Watch):
        found = app.state.watch = Watch(server)
    return found
