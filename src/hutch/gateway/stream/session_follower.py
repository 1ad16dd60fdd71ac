"""Follows the entries and deltas of a session, for all transports."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import aclosing

from hutch.domain.errors import Conflict, RecordDamaged
from hutch.flows.log_visible_to_reader import read_page
from hutch.gateway.stream.open_streams import COMPLETED, DAMAGED, Ending
from hutch.gateway.stream.sse_and_websocket_frames import last_seq
from hutch.gateway.stream.stream_permission import StreamGrant
from hutch.sessions.interface import Update
from hutch.store.log_damage_check import missing_end

SETTLE_DELAY_S = 1.0  # between the end of a session in its row and in its log
Write = Callable[[Update], Awaitable[None]]


class Follower:
    """A position in the log of a session that moves forward."""

    def __init__(self, grant: StreamGrant, after: int) -> None:
        self.seq = after  # of the last entry that was sent whole
        self._grant = grant

    async def check(self) -> bool:
        """True if more updates can come. Refused if the position is beyond the end of the log."""
        head = await self._grant.server.log.head(self._grant.session.id)
        if self.seq > head.seq:
            raise Conflict(
                f"Session {head.session_id} ends at event {head.seq}, before {self.seq}. "
                "Follow it from there."
            )
        if self._grant.session.state == "ended" and not head.ended:
            await asyncio.sleep(SETTLE_DELAY_S)
            head = await self._grant.server.log.head(self._grant.session.id)
            if not head.ended:
                raise missing_end(head.session_id)
        if self.seq < head.seq:  # a missing event is an error now, else the client would reconnect for ever
            grant = self._grant
            await read_page(grant.server.services, grant.caller, grant.session, after=self.seq, limit=1)
        return not (head.ended and self.seq == head.seq)

    async def run(self, write: Write) -> Ending:
        """Write every update, one after the other. Slow clients are waited for; nothing is buffered."""
        grant = self._grant
        updates = grant.server.host.follow(grant.session.id, grant.reader, after=self.seq)
        try:
            async with aclosing(updates):
                async for update in updates:
                    await write(update)
                    self.seq = last_seq(update, self.seq)
        except RecordDamaged as damaged:
            return Ending(DAMAGED.name, DAMAGED.code, str(damaged))
        return COMPLETED
