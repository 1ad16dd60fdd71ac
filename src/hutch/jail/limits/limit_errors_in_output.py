"""The limits that a failed command met, as its output reports them.

The kernel enforces some limits for each process: it refuses a call, and tells nobody but the program. Most
programs print the message of the C library, or that of their runtime.
"""

import re
from collections.abc import Collection, Mapping

from hutch.domain.byte_size_formatting import readable_size
from hutch.jail.interface import LimitHit
from hutch.jail.policy import Limits

OUT_OF_MEMORY = (
    r"\bMemoryError\b|\b[Cc]annot allocate memory|std::bad_alloc|\bOutOfMemoryError\b|heap out of memory"
    r"|Array buffer allocation failed|\bFailed to allocate memory|\bNoMemoryError\b"
    r"|memory allocation of \d+ bytes failed|runtime: out of memory"
)
REFUSALS: Mapping[str, re.Pattern[bytes]] = {
    "open_files": re.compile(rb"\b[Tt]oo many open files(?! in system)"),
    "file_bytes": re.compile(rb"\bFile size limit exceeded|\bFile too large\b"),
    "processes": re.compile(
        rb"[Cc]annot fork|fork\b.{0,60}\bResource temporarily unavailable|can't start new thread"
    ),
    "memory_bytes": re.compile(OUT_OF_MEMORY.encode()),
}
TAIL_BYTES = 64 * 1024  # of the output, that are searched


def find_refusal(output: bytes, limits: Limits, names: Collection[str]) -> LimitHit | None:
    """The limit, of these names, that a failed command reports."""
    tail = output[-TAIL_BYTES:]
    for name, pattern in REFUSALS.items():
        if name in names and pattern.search(tail):
            value = getattr(limits, name)
            return LimitHit(name, readable_size(value) if name.endswith("_bytes") else f"{value}")
    return None
