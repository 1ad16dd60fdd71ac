"""The output of a build: written to a file that can be followed, with the last lines at hand."""

import re
from collections import deque
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from hutch.system.terminal_safe_text import one_line, printable

MAX_LOG_BYTES = 4 * 1024 * 1024
MAX_LAST_LINES = 30
MAX_LINE_CHARS = 500
MAX_CAUSES = 3
MAX_CAUSE_CHARS = 250
CAUSE = re.compile(
    r"(?i)\b(error|err!|fatal|failed|denied|missing|not found|could not|cannot|can't|can only|unable|"
    r"no matching|no such|unsupported|refused|mismatch)\b"
)
MIN_CAUSE_WORDS = 5  # fewer say only that there was an error
WARNING = re.compile(r"(?i)^\W*(npm |yarn |pnpm )?warn")
OnLine = Callable[[str], None]


class BuildLog:
    """The output of a build, line by line. Control characters are removed: it comes from a jail."""

    def __init__(self, path: Path, on_line: OnLine) -> None:
        self._file = path.open("w", encoding="utf-8", errors="replace")
        self._on_line = on_line
        self._left = MAX_LOG_BYTES
        self._partial = ""
        self.last: deque[str] = deque(maxlen=MAX_LAST_LINES)
        self.causes: list[str] = []  # the first lines of the current step that look like its failure

    def begin_step(self, command: str) -> None:
        self.causes = []
        for number, line in enumerate(command.strip().splitlines()):
            self.line(f"  {line}" if number else f"$ {line}")

    def write(self, data: bytes) -> None:
        text = self._partial + data.decode(errors="replace").replace("\r", "\n")
        *lines, self._partial = text.split("\n")
        if len(self._partial) > MAX_LINE_CHARS:
            lines.append(self._partial)
            self._partial = ""
        for line in lines:
            self._note_cause(line)
            self.line(line)

    def line(self, text: str) -> None:
        shown = printable(text[:MAX_LINE_CHARS]).rstrip()
        if not shown:
            return
        self.last.append(shown)
        self._left -= len(shown) + 1
        if self._left > 0:
            self._file.write(shown + "\n")
            self._file.flush()
        self._on_line(shown)

    def _note_cause(self, text: str) -> None:
        """Package managers print the cause first, and then their usage or where their log is."""
        if len(self.causes) == MAX_CAUSES or len(text) > MAX_LINE_CHARS:
            return
        if CAUSE.search(text) and not WARNING.match(text) and len(text.split()) >= MIN_CAUSE_WORDS:
            self.causes.append(one_line(text, MAX_CAUSE_CHARS))

    def end_line(self) -> None:
        self._note_cause(self._partial)
        self.line(self._partial)
        self._partial = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end_line()
        self._file.close()
