"""The output of a running command: its first lines immediately, and the last of the others.

On a terminal the last lines are redrawn in a window, with a count of the lines between; elsewhere they
are printed with the result.
"""

from collections import Counter, deque
from collections.abc import Sequence

FIRST_LINES = 12
LAST_LINES = 4
STDERR_MARK = "[stderr]"  # in a result, before what was printed to standard error
MAX_LINE_CHARS = 4096  # buffered of a line without an end


class LiveOutput:
    """The output of the current command, selected for display."""

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._unfinished: dict[str, str] = {}  # the unfinished line of each stream
        self._last: deque[str] = deque(maxlen=LAST_LINES)  # of the lines beyond FIRST_LINES
        self._late = 0  # how many lines are beyond FIRST_LINES

    def begin(self) -> None:
        """Start with the next command."""
        self._shown.clear()
        self._unfinished.clear()
        self._last.clear()
        self._late = 0

    def add(self, stream: str, text: str) -> list[str]:
        """Add output; return the finished lines to show now."""
        *whole, unfinished = (self._unfinished.get(stream, "") + text).split("\n")
        self._unfinished[stream] = unfinished[-MAX_LINE_CHARS:]
        now = []
        for line in whole:
            # Of a line that was redrawn, such as a progress bar, only the last state is shown.
            line = line.rstrip("\r").rpartition("\r")[2]
            if self._shown.total() < FIRST_LINES:
                self._shown[line] += 1
                now.append(line)
            else:
                self._last.append(line[:MAX_LINE_CHARS])
                self._late += 1
        return now

    def window(self) -> list[str]:
        """The last lines, after a count of the omitted ones."""
        return _after(self._late - len(self._last), self._last)

    def rest(self, text: str) -> tuple[list[str], int]:
        """The lines of a result that are not shown yet, as far as they fit, and the number of further lines.

        If lines were shown live, the result includes the last lines.
        """
        shown, remaining = self._shown.copy(), []
        mark: list[str] = []  # left out if the lines after it were shown live, in the order of both streams
        for line in text.splitlines():
            if shown[line] > 0:
                shown[line] -= 1
                mark = []
            elif line == STDERR_MARK and self._shown:
                mark = [line]
            else:
                remaining += [*mark, line]
                mark = []
        space = max(0, FIRST_LINES - self._shown.total())
        late = max(len(remaining), self._late) - space  # a result may be shorter than the printed output
        is_live = bool(self._shown)
        self.begin()
        if not is_live:
            return remaining[:space], max(0, late)
        last = remaining[space:][-LAST_LINES:]
        return remaining[:space] + _after(late - len(last), last), 0


def _after(hidden: int, lines: Sequence[str]) -> list[str]:
    count = f"… {hidden:,} more line{'' if hidden == 1 else 's'}"
    return [count, *lines] if hidden > 0 else [*lines]


class Window:
    """Rows of a terminal that are redrawn in place; returns the text to write."""

    def __init__(self) -> None:
        self._rows = 0

    def draw(self, rows: Sequence[str]) -> str:
        """Replace the rows. No row may be wider than the terminal, or it would wrap."""
        cleared = self.clear()
        self._rows = len(rows)
        return cleared + "".join(f"{row}\n" for row in rows)

    def clear(self) -> str:
        """Erase the rows; the next output takes their position."""
        rows, self._rows = self._rows, 0
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""
