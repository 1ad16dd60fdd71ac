"""Ages and moments that users type: 7d, 12h, 30m; 2026-03-01, 2026-03-01T12:30:05+02:00."""

import re
from datetime import UTC, datetime

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo

UNITS_MS = {"w": 604_800_000, "d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_AGE = re.compile(r"(\d{1,6})([wdhms])", re.ASCII)
_MILLISECONDS = re.compile(r"\d{12,15}", re.ASCII)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}([T ].*)?", re.ASCII)


def parse_age_ms(text: str) -> int:
    """An age in milliseconds."""
    found = _AGE.fullmatch(text.strip())
    if not found:
        raise BadRequest(f"{echo(text, 40)} is not an age. Write a number and w, d, h, m or s: 7d, 12h, 30m.")
    return int(found[1]) * UNITS_MS[found[2]]


def parse_moment_ms(text: str, now_ms: int) -> int:
    """A moment in milliseconds since 1970: a date, a date with a time, milliseconds, or an age before now.

    Without a time zone it is UTC, as in all lists of Hutch.
    """
    text = text.strip()
    if found := _AGE.fullmatch(text):
        return now_ms - int(found[1]) * UNITS_MS[found[2]]
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    moment = _parse_date(text)
    if moment is None:
        raise BadRequest(
            f"{echo(text, 40)} is not a time. Write an age such as 30m, 2h or 7d, a date such as 2026-03-01, "
            "or a date with a time such as 2026-03-01T12:30 (UTC unless it ends with a zone such as +02:00)."
        )
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * 1000)


def _parse_date(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if _DATE.fullmatch(text) else None
    except ValueError:
        return None
