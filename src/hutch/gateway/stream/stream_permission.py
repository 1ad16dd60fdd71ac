"""A caller's permission to stream a session; re-checked while the stream is open.

When a token is revoked, a user disabled or a share withdrawn, the stream must end.
"""

from dataclasses import replace
from typing import Any, cast

from hutch.domain.errors import Denied, TooManyRequests
from hutch.domain.log_entry_audience import Reader
from hutch.domain.session import Session
from hutch.domain.user import Caller
from hutch.flows.policies.user_action_check import RequestGuard
from hutch.flows.session_permissions import Action
from hutch.flows.sessions import allowed, reader_of
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.gateway_context import Server
from hutch.gateway.stream.open_streams import Stream
from hutch.gateway.stream.stream_quota import StreamSlot, stream_quota_of
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class StreamGrant:
    """A caller's access to one session over one connection."""

    server: Server
    authenticator: Authenticator
    scope: Any
    caller: Caller
    session: Session
    reader: Reader
    writes: bool  # whether the caller may work in the session, or only watch
    slot: StreamSlot
    types: bool = False  # whether it is for a terminal
    action: Action = "input"  # what `writes` is about

    async def renew(self, session: Session | None = None) -> "StreamGrant":
        """The grant as of now. Refused if the caller lost access, or may see less than before."""
        caller = await self.authenticator.recheck(self.scope)
        session, reader, writes = await _access(
            self.server, caller, session or self.session.id, types=self.types, action=self.action
        )
        if self.reader.owner_side and not reader.owner_side:
            raise Denied(
                f"{caller.user.name} may see less of session {session.id} now. Open the stream again."
            )
        return replace(self, caller=caller, session=session, writes=writes)

    def is_of(self, user_id: str | None, credential_id: str | None) -> bool:
        return self.caller.user.id == user_id or self.caller.credential_id == credential_id

    def count(self) -> None:
        """Count one more request of this caller, over an open stream."""
        wait_s = self.authenticator.buckets.take(self.caller.credential_id)
        if wait_s:
            raise TooManyRequests(
                f"Too many requests. Try again in {wait_s} s.",
                limit="server.requests_per_minute",
                retry_after_s=wait_s,
            )


def grant_of(stream: Stream) -> StreamGrant:
    """The grant of a stream that is not a preview."""
    assert isinstance(stream.grant, StreamGrant)
    return stream.grant


async def grant_stream(
    scope: Any, session_id: str, *, types: bool = False, action: Action = "input"
) -> StreamGrant:
    """Authenticate the caller, check access to the session, and take a slot of the stream quota. `types`: the
    stream is a terminal, in which a policy or an invitation may forbid to type."""
    caller = await _authenticator(scope).recognise(scope)
    return await grant_stream_to(scope, caller, session_id, types=types, action=action)


async def grant_stream_to(
    scope: Any, caller: Caller, session_id: str, *, types: bool = False, action: Action = "input"
) -> StreamGrant:
    """The same for a caller who is already authenticated."""
    caller.need("read")
    session, reader, writes = await _access(_server(scope), caller, session_id, types=types, action=action)
    return replace(_new_grant(scope, caller, session, reader, writes=writes), types=types, action=action)


async def grant_watching(scope: Any, caller: Caller, session: Session) -> StreamGrant:
    """A read-only grant for a caller whose access was checked before."""
    reader = await reader_of(_server(scope).services, caller, session)
    return _new_grant(scope, caller, session, reader, writes=False)


def _new_grant(scope: Any, caller: Caller, session: Session, reader: Reader, *, writes: bool) -> StreamGrant:
    slot = stream_quota_of(scope["app"]).acquire(scope, caller)
    return StreamGrant(_server(scope), _authenticator(scope), scope, caller, session, reader, writes, slot)


def _server(scope: Any) -> Server:
    return cast(Server, scope["app"].state.server)


def _authenticator(scope: Any) -> Authenticator:
    return cast(Authenticator, scope["app"].state.authenticator)


async def _access(
    server: Server, caller: Caller, session: Session | str, *, types: bool = False, action: Action = "input"
) -> tuple[Session, Reader, bool]:
    try:
        found, writes = await allowed(server.services, caller, session, action), True
    except Denied:
        found, writes = await allowed(server.services, caller, session), False
    if writes and types:
        writes = await RequestGuard(server.services.policies).may_type(found, caller.user.id)
    return found, await reader_of(server.services, caller, found), writes
