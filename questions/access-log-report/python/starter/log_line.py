"""Reads one line of the access log."""

from typing import NamedTuple, Optional


class Request(NamedTuple):
    time: str
    method: str
    path: str  # with its query
    status: int
    duration_ms: int


def parse_line(line: str) -> Optional[Request]:
    """The request of a line, or None if the line is not one."""
    parts = line.split()
    if len(parts) != 5:
        return None
    time, method, path, status, duration_ms = parts
    if not (status.isdigit() and duration_ms.isdigit() and path.startswith("/")):
        return None
    return Request(time, method, path, int(status), int(duration_ms))
