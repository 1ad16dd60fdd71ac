"""How fast one session may be used: messages per minute, and runs per hour.

The limits are checked in the transaction that adds the message or the run, so concurrent
requests cannot exceed them.
"""

from sqlalchemy import Connection, func, or_, select

from hutch.domain.errors import TooManyRequests
from hutch.store.schema import inputs, runs
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
MESSAGES = ("prompt", "message", "resume")  # the kinds of inputs that count


@dataclass(frozen=True, slots=True)
class SessionRates:
    """The limits of one session; None: no limit."""

    messages_per_minute: int | None = None
    runs_per_hour: int | None = None


NO_RATES = SessionRates()


def check_message(connection: Connection, rates: SessionRates, session_id: str, body: str) -> None:
    """Refuse a message that exceeds a limit, or that would start a run too many."""
    if not _is_any_of(body, MESSAGES):
        return
    if rates.messages_per_minute is not None:
        is_message = or_(*(inputs.c.body.startswith(f'{{"type":"{kind}"') for kind in MESSAGES))
        recent = (inputs.c.session_id == session_id, is_message, inputs.c.at_ms > wall_ms() - MINUTE_MS)
        newest = select(inputs.c.at_ms).where(*recent).order_by(inputs.c.at_ms.desc())
        full_since = connection.scalar(newest.offset(rates.messages_per_minute - 1).limit(1))
        if full_since is not None:
            raise _too_many(
                session_id, rates.messages_per_minute, "messages", "minute", full_since + MINUTE_MS
            )
    is_idle = not connection.scalar(
        select(runs.c.id)
        .where(runs.c.session_id == session_id, runs.c.state.in_(("queued", "running")))
        .limit(1)
    )
    if is_idle or _is_any_of(body, ("prompt",)):
        check_run(connection, rates, session_id, pending=_count_prompts(connection, session_id))


def check_run(connection: Connection, rates: SessionRates, session_id: str, *, pending: int = 0) -> None:
    """Refuse a further run in a session that had its runs of this hour; `pending` runs will start soon."""
    if rates.runs_per_hour is None:
        return
    here = (runs.c.session_id == session_id, runs.c.kind == "prompt", runs.c.queued_ms > wall_ms() - HOUR_MS)
    newest = select(runs.c.queued_ms).where(*here).order_by(runs.c.queued_ms.desc())
    place = max(0, rates.runs_per_hour - 1 - pending)
    full_since = connection.scalar(newest.offset(place).limit(1))
    if full_since is not None or pending >= rates.runs_per_hour:
        until = (full_since or wall_ms()) + HOUR_MS
        raise _too_many(session_id, rates.runs_per_hour, "runs", "hour", until)


def _count_prompts(connection: Connection, session_id: str) -> int:
    """Prompts that have not become runs yet."""
    here = (inputs.c.session_id == session_id, inputs.c.processed.is_(False))
    is_prompt = inputs.c.body.startswith('{"type":"prompt"')
    return connection.scalar(select(func.count()).select_from(inputs).where(*here, is_prompt)) or 0


def _is_any_of(body: str, kinds: tuple[str, ...]) -> bool:
    return body.startswith(tuple(f'{{"type":"{kind}"' for kind in kinds))


def _too_many(session_id: str, limit: int, what: str, period: str, until_ms: int) -> TooManyRequests:
    wait_s = max(1, -(-(until_ms - wall_ms()) // 1000))
    return TooManyRequests(
        f"The session {session_id} had {limit} {what} in the last {period}. Try again in {wait_s} s.",
        limit=f"sessions.{what}_per_{period}",
        retry_after_s=wait_s,
    )
