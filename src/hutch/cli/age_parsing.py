"""Ages that users type, such as 7d, 12h or 30m."""

import re

from hutch.domain.errors import BadRequest

UNITS_MS = {"d": 86_400_000, "h": 3_600_000, "m": 60_000, "s": 1000}
_AGE = re.compile(r"(\d{1,6})([dhms]?)", re.ASCII)


def parse_age_ms(text: str) -> int:
    """An age in milliseconds; a number without a unit is a number of days."""
    found = _AGE.fullmatch(text.strip())
    if not found:
        raise BadRequest(f"{text[:40]!r} is not an age. Write a number and d, h, m or s: 7d, 12h, 30m.")
    return int(found[1]) * UNITS_MS[found[2] or "d"]
