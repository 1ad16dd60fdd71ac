"""The lines of a report, as many as a runner prints."""

import io

MAX_PARTS = 1_000_000  # of one JSON document, or lines: each takes far more memory than its bytes


def lines_of(data: bytes) -> list[str]:
    """The lines of a text, none when there are more than a runner prints."""
    if data.count(b"\n") > MAX_PARTS:
        return []
    return [line.rstrip("\r\n") for line in io.StringIO(data.decode(errors="replace"), newline="\n")]
