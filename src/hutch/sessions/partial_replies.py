"""The parts of replies that models are writing now.

Deltas are not stored. A follower that comes in the middle of a reply, or was too slow, gets the text
written so far from here.
"""

from dataclasses import field, replace

from hutch.domain.ids import SessionId
from hutch.domain.log_entry_audience import Reader
from hutch.sessions.interface import Delta
from hutch.system.lazy_dataclass import dataclass

REPLY_KINDS = frozenset({"text", "thinking", "call", "arguments", "again"})


@dataclass(slots=True)
class PartialReply:
    """One reply so far. Neighbouring parts of one kind are joined."""

    run_id: str
    turn: int
    after: int = 0  # the number of the entry that the newest part follows
    last: int = 0  # the number of the newest part
    _parts: list[tuple[Delta, list[str]]] = field(default_factory=list)

    def add(self, delta: Delta) -> None:
        if self._parts:
            newest, texts = self._parts[-1]
            if (newest.kind, newest.call_id) == (delta.kind, delta.call_id):
                texts.append(delta.text)
                return
        self._parts.append((delta, [delta.text]))

    def deltas(self, reader: Reader) -> list[Delta]:
        """The deltas for a follower that has an unknown part of the reply."""
        start = Delta(self.run_id, self.turn, "resumed", "", audience=self._parts[0][0].audience)
        parts = [start, *(replace(delta, text="".join(texts)) for delta, texts in self._parts)]
        return [delta for delta in parts if reader.may_see(delta.audience)]


class PartialReplies:
    """Those of all sessions. A session has one run at a time, so it has at most one."""

    def __init__(self) -> None:
        self._replies: dict[SessionId, PartialReply] = {}
        self._count = 0

    def add(self, session_id: SessionId, delta: Delta, after: int) -> int:
        """Note a part. Returns its number, by which a follower knows whether it has it already."""
        self._count += 1
        if delta.kind in REPLY_KINDS:
            reply = self._replies.get(session_id)
            if (
                reply is None
                or delta.kind == "again"
                or (reply.run_id, reply.turn) != (delta.run_id, delta.turn)
            ):
                reply = self._replies[session_id] = PartialReply(delta.run_id, delta.turn)
            reply.add(delta)
            reply.after, reply.last = after, self._count
        return self._count

    def get(self, session_id: SessionId) -> PartialReply | None:
        return self._replies.get(session_id)

    def remove(self, session_id: SessionId) -> None:
        """Forget a reply: the log has it whole, or it will not be continued."""
        self._replies.pop(session_id, None)
