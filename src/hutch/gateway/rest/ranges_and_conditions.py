"""Conditions and ranges of requests for a file's content (RFC 9110)."""

import re

from hutch.gateway.http_error_table import RangeNotSatisfiable
from hutch.system.lazy_dataclass import dataclass

_ETAG = re.compile(r'\s*(W/)?"([\x21\x23-\x7e]*)"\s*(?:,|$)')
_RANGE = re.compile(r"bytes\s*=\s*(\d{0,18})-(\d{0,18})\s*")


def etag(sha256: str) -> str:
    return f'"{sha256}"'


def matches(header: str, sha256: str | None, *, weak: bool = False) -> bool:
    """True if a list of entity tags, or `*`, matches content; None is a missing file."""
    if header.strip() == "*":
        return sha256 is not None
    tags = [found[2] for found in _ETAG.finditer(header) if weak or not found[1]]
    return sha256 is not None and sha256 in tags


@dataclass(frozen=True, slots=True)
class Part:
    """The range of bytes to send."""

    start: int
    end: int  # exclusive
    whole: bool


def part_of(header: str | None, size: int) -> Part:
    """The bytes that a header Range requests. Anything but one range of bytes is ignored."""
    found = _RANGE.fullmatch(header) if header else None
    if not found or not (found[1] or found[2]):
        return Part(0, size, True)
    if not found[1]:
        start, end = max(0, size - int(found[2])), size
    else:
        start, end = int(found[1]), min(size, int(found[2]) + 1 if found[2] else size)
        if found[2] and int(found[2]) < start:
            return Part(0, size, True)
    if start >= size or start >= end:
        raise RangeNotSatisfiable(f"The file has {size} bytes. The requested range is outside it.", size=size)
    return Part(start, end, False)
