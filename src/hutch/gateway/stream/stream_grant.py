"""Somebody's leave to follow a session. It is asked for again while the stream goes on.

A token may be revoked, a user disabled, a share taken back: whoever follows by it then
must not see more.
"""

from dataclasses import dataclass, replace
from typing import Any, cast

from hutch.domain.audience import Reader
from hutch.domain.errors import Denied, TooManyRequests
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.sessions import allowed, reader_of
from hutch.gateway.auth.authenticator import Guard
from hutch.gateway.context import Server
from hutch.gateway.stream.stream_quota import Ticket, tickets_of
from hutch.gateway.stream.streams import Stream


@dataclass(frozen=True, slots=True)
class Permit:
    """Who follows what, and how they came in."""

    server: Server
    guard: Guard
    scope: Any
    who: Caller
    session: Session
    reader: Reader
    writes: bool  # whether they may work in it, or only watch
    ticket: Ticket

    async def renew(self, session: Session | None = None) -> "Permit":
        """The same as of now; refused when it no longer holds, or would show less from now on."""
        who = await self.guard.still(self.scope)
        session, reader, writes = await _what(self.server, who, session or self.session.id)
        if self.reader.owner_side and not reader.owner_side:
            raise Denied(f"{who.user.name} may see less of the session {session.id} now. Follow it again.")
        return replace(self, who=who, session=session, writes=writes)

    def count(self) -> None:
        """One more request of this caller, by a stream that is open already."""
        wait_s = self.guard.buckets.take(self.who.credential_id)
        if wait_s:
            raise TooManyRequests(
                f"Too many requests. Try again in {wait_s} s.",
                limit="server.requests_per_minute",
                retry_after_s=wait_s,
            )


def permit_of(stream: Stream) -> Permit:
    """The leave of a stream that was opened with one of these."""
    assert isinstance(stream.permit, Permit)
    return stream.permit


async def permit(scope: Any, session_id: str) -> Permit:
    """For who may see a session, to others it does not exist; and who does not follow too much already."""
    return await permit_known(scope, await _guard(scope).recognise(scope), session_id)


async def permit_known(scope: Any, who: Caller, session_id: str) -> Permit:
    """The same, for a caller who was recognised and counted before."""
    who.need("read")
    session, reader, writes = await _what(_server(scope), who, session_id)
    return _permit(scope, who, session, reader, writes=writes)


async def permit_watching(scope: Any, who: Caller, session: Session) -> Permit:
    """The same, for a caller who may see the session, as was checked before, and who only watches."""
    reader = await reader_of(_server(scope).services, who, session)
    return _permit(scope, who, session, reader, writes=False)


def _permit(scope: Any, who: Caller, session: Session, reader: Reader, *, writes: bool) -> Permit:
    ticket = tickets_of(scope["app"]).take(scope, who)
    return Permit(_server(scope), _guard(scope), scope, who, session, reader, writes, ticket)


def _server(scope: Any) -> Server:
    return cast(Server, scope["app"].state.server)


def _guard(scope: Any) -> Guard:
    return cast(Guard, scope["app"].state.guard)


async def _what(server: Server, who: Caller, session: Session | str) -> tuple[Session, Reader, bool]:
    try:
        found, writes = await allowed(server.services, who, session, "input"), True
    except Denied:
        found, writes = await allowed(server.services, who, session), False
    return found, await reader_of(server.services, who, found), writes
