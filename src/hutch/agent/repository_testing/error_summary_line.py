"""The one line of an output that best describes the error."""

import re

LINE_CHARS = 200
TRACEBACK = "Traceback (most recent call last)"
ERROR = re.compile(
    r"\b(?:error|fatal|panic|not found|not installed|no such|no module|cannot|can't|could not|unable to"
    r"|denied|missing|unknown|unrecognized|invalid)\b",
    re.IGNORECASE,
)


def error_line(output: str) -> str:
    """The first line that mentions an error, else the last one; empty when nothing was printed."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    if not lines:
        return ""
    if any(line.startswith(TRACEBACK) for line in lines):  # Python prints the exception last
        found = lines[-1]
    else:
        found = next((line for line in lines if ERROR.search(line)), lines[-1])
    found = found if len(found) <= LINE_CHARS else f"{found[: LINE_CHARS - 1]}…"
    return found.rstrip(".")
