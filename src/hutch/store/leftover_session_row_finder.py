"""Finds rows that still refer to a session whose log is erased."""

from sqlalchemy import Connection, select

from hutch.domain.ids import SessionId
from hutch.store.schema import answered_requests, changes, reviews, runs, sessions
from hutch.store.table_access_interface import Rows
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Branch:
    """The branch of a change of the session."""

    name: str
    repository: str
    web_url: str


@dataclass(frozen=True, slots=True)
class References:
    """Rows that refer to a session, or that its erasure does not cover."""

    state: str | None  # None for a session without a row
    is_running: bool
    branches: tuple[Branch, ...]
    has_answered_requests: bool
    forks: tuple[str, ...]  # sessions that were forked from it, and from those
    reviewers: tuple[str, ...]  # sessions that reviewed its changes


async def find_references(rows: Rows, session_id: SessionId) -> References:
    return await rows.fetch(lambda connection: _find(connection, session_id))


def _find(connection: Connection, session_id: SessionId) -> References:
    running = select(runs.c.id).where(runs.c.session_id == session_id, runs.c.state == "running")
    branches = select(changes.c.branch, changes.c.repository, changes.c.web_url)
    own = select(changes.c.id).where(changes.c.session_id == session_id)
    readers = select(reviews.c.session_id).where(reviews.c.change_id.in_(own), reviews.c.session_id != "")
    return References(
        state=connection.scalar(select(sessions.c.state).where(sessions.c.id == session_id)),
        is_running=connection.scalar(running.limit(1)) is not None,
        branches=tuple(
            Branch(*row) for row in connection.execute(branches.where(changes.c.session_id == session_id))
        ),
        has_answered_requests=connection.scalar(select(answered_requests.c.key).limit(1)) is not None,
        forks=tuple(_forks(connection, session_id)),
        reviewers=tuple(sorted(set(connection.scalars(readers)) - {session_id})),
    )


def _forks(connection: Connection, session_id: str) -> list[str]:
    found = [session_id]
    for id in found:  # the list grows during the loop
        forked = sessions.c.forked_from.startswith(f"{id}@", autoescape=True)
        found += connection.scalars(select(sessions.c.id).where(forked).order_by(sessions.c.id))
    return found[1:]
