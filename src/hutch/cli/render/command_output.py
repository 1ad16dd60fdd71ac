"""What a command prints while it runs: its first lines at once, and the last of the others.

On a terminal those move in a window below, drawn over themselves, with a count of the
lines between; elsewhere they come with the result.
"""

from collections import Counter, deque
from collections.abc import Sequence

SHOWN_LINES = 12  # of one command, from its beginning
LAST_LINES = 4  # and from its end
MAX_LINE = 4096  # letters that are kept of one that does not end


class LiveSession:
    """One command after the other."""

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._begun: dict[str, str] = {}  # by stream: a line that has not ended
        self._last: deque[str] = deque(maxlen=LAST_LINES)  # of those that there was no room for
        self._late = 0  # how many those were

    def begin(self) -> None:
        """Another command begins."""
        self._shown.clear()
        self._begun.clear()
        self._last.clear()
        self._late = 0

    def add(self, stream: str, text: str) -> list[str]:
        """The lines that are to be shown now, since they have ended and there is room for them."""
        *whole, begun = (self._begun.get(stream, "") + text).split("\n")
        self._begun[stream] = begun[-MAX_LINE:]
        now = []
        for line in whole:
            # What drew over itself, as bars of progress do, is shown as it was left.
            line = line.rstrip("\r").rpartition("\r")[2]
            if self._shown.total() < SHOWN_LINES:
                self._shown[line] += 1
                now.append(line)
            else:
                self._last.append(line[:MAX_LINE])
                self._late += 1
        return now

    def window(self) -> list[str]:
        """The last lines that there was no room for, after how many others are not shown."""
        return _after(self._late - len(self._last), self._last)

    def rest(self, text: str) -> tuple[list[str], int]:
        """Of a result, the lines that were not shown yet as far as they fit, and how many more there are.

        Where lines were shown as they came, the last ones are among them.
        """
        shown, left = self._shown.copy(), []
        for line in text.splitlines():
            if shown[line] > 0:
                shown[line] -= 1
            else:
                left.append(line)
        room = max(0, SHOWN_LINES - self._shown.total())
        late = max(len(left), self._late) - room  # a result may be shorter than what was printed
        is_live = bool(self._shown)
        self.begin()
        if not is_live:
            return left[:room], max(0, late)
        last = left[room:][-LAST_LINES:]
        return left[:room] + _after(late - len(last), last), 0


def _after(hidden: int, lines: Sequence[str]) -> list[str]:
    count = f"… {hidden:,} more line{'' if hidden == 1 else 's'}"
    return [count, *lines] if hidden > 0 else [*lines]


class Window:
    """Rows of a terminal that are drawn over themselves: what to write for it."""

    def __init__(self) -> None:
        self._rows = 0

    def draw(self, rows: Sequence[str]) -> str:
        """Instead of what was there. No row may be wider than the terminal, or it would be two."""
        cleared = self.clear()
        self._rows = len(rows)
        return cleared + "".join(f"{row}\n" for row in rows)

    def clear(self) -> str:
        """Take it away: what is written next stands in its place."""
        rows, self._rows = self._rows, 0
        return f"\x1b[{rows}A\r\x1b[J" if rows else ""
