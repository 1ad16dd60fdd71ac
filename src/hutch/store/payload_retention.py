"""Erases payloads after a retention time."""

from hutch.domain.ids import SessionId
from hutch.store.event_log_interface import EventLog
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

DAY_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Pruned:
    """A session past its retention time, and how many of its payloads were erased."""

    session_id: SessionId
    payloads: int


async def prune(log: EventLog, *, days: int, dry_run: bool = False) -> list[Pruned]:
    """Erase the payloads of sessions that ended more than `days` days ago; their hash chain stays."""
    cutoff_ms = wall_ms() - days * DAY_MS
    pruned: list[Pruned] = []
    before: SessionId | None = None
    while heads := await log.heads(before=before):
        before = heads[-1].session_id
        for head in heads:
            if not head.ended or head.at_ms >= cutoff_ms:
                continue
            payloads = await log.count_payloads(head.session_id)
            if not payloads:
                continue
            if not dry_run:
                payloads = await log.erase(head.session_id, None, reason=f"kept for {days} days")
            pruned.append(Pruned(head.session_id, payloads))
    if not dry_run:
        await log.collect_garbage()
    return pruned
