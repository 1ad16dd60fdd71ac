"""The subscriptions: the events and deltas of a session, and the list of sessions."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import strawberry

from hutch.domain.errors import BadRequest
from hutch.gateway.graphql.object_types import BigInt, Delta, Event
from hutch.gateway.graphql.resolver_context import Info
from hutch.gateway.graphql.session_list_watch import watch_of
from hutch.gateway.graphql.session_type import Session
from hutch.gateway.request_and_response_bodies import MAX_SIZE
from hutch.gateway.stream.open_streams import RENEW_INTERVAL_S
from hutch.gateway.stream.session_follower import Follower
from hutch.gateway.stream.stream_permission import grant_stream_to
from hutch.gateway.stream.stream_quota import stream_quota_of
from hutch.sessions.interface import Delta as SessionDelta

Update = Annotated[Event | Delta, strawberry.union("Update", description="An event, or a part of a reply.")]


@strawberry.type
class Subscription:
    @strawberry.subscription(description="All events of a session after a number, without gaps.")
    async def events(
        self,
        info: Info,
        session_id: strawberry.ID,
        after: BigInt = BigInt(0),  # noqa: B008
        deltas: bool = True,
    ) -> AsyncGenerator[Update]:
        if not 0 <= after <= MAX_SIZE:
            raise BadRequest(f"`after` must be the number of an event, not {after}.")
        allowed = await grant_stream_to(info.context.scope, info.context.caller, session_id)
        try:
            if not await Follower(allowed, after).check():
                return
            access_changes = allowed.authenticator.access_changes
            renewed, changes = 0.0, -1
            host = info.context.server.host
            async with aclosing(host.follow(allowed.session.id, allowed.reader, after=after)) as updates:
                async for update in updates:
                    # No update is sent under a grant from before a change of access, or older than this.
                    while changes != access_changes.count or time.monotonic() - renewed > RENEW_INTERVAL_S:
                        changes, renewed = access_changes.count, time.monotonic()
                        allowed = await allowed.renew()
                    if not isinstance(update, SessionDelta):
                        yield Event.of(update)
                    elif deltas:
                        yield Delta.of(update)
        finally:
            allowed.slot.release()

    @strawberry.subscription(
        description="Sessions that you may see, whenever one is created, changes its state, or is removed."
    )
    async def sessions(self, info: Info) -> AsyncGenerator[Session]:
        scope = info.context.scope
        watch = watch_of(scope["app"], info.context.server)
        slot = stream_quota_of(scope["app"]).acquire(scope, info.context.caller)
        try:
            async with aclosing(watch.follow(scope)) as changed:
                async for shown, removed in changed:
                    yield Session.of(shown, removed=removed)
        finally:
            slot.release()
