"""Times and people in the words of a report."""

from collections.abc import Mapping
from datetime import UTC, datetime

CAPTIONS = {
    "agent": "the AI",
    "hutch": "Hutch",
    "starter": "the question",
    "unknown": "not known",
    "": "Hutch",
}


def person(author: str, names: Mapping[str, str]) -> str:
    """The name of an author; of a user who was erased, the id."""
    return names.get(author) or CAPTIONS.get(author, author)


def time_of_day(at_ms: int) -> str:
    """A moment by the server's clock, in UTC."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%H:%M:%S") if at_ms else "–"


def used_time(ms: int) -> str:
    """A duration."""
    return f"{ms // 60_000} min {ms // 1000 % 60} s"
