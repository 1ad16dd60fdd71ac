"""What a command prints while it runs: its first lines at once, and the others with its result."""

from collections import Counter

SHOWN_LINES = 12  # of one command
LONGEST_LINE = 4096  # letters that are kept of one that does not end


class Live:
    """One command after the other."""

    def __init__(self) -> None:
        self._shown: Counter[str] = Counter()
        self._begun: dict[str, str] = {}  # by stream: a line that has not ended

    def begin(self) -> None:
        """Another command begins."""
        self._shown.clear()
        self._begun.clear()

    def add(self, stream: str, text: str) -> list[str]:
        """The lines that are to be shown now, since they have ended and there is room for them."""
        *whole, begun = (self._begun.get(stream, "") + text).split("\n")
        self._begun[stream] = begun[-LONGEST_LINE:]
        now = []
        for line in whole:
            if self._shown.total() < SHOWN_LINES:
                # What drew over itself, as bars of progress do, is shown as it was left.
                line = line.rstrip("\r").rpartition("\r")[2]
                self._shown[line] += 1
                now.append(line)
        return now

    def rest(self, text: str) -> tuple[list[str], int]:
        """Of a result, the lines that were not shown yet as far as they fit, and how many are left out."""
        shown, left = self._shown.copy(), []
        for line in text.splitlines():
            if shown[line] > 0:
                shown[line] -= 1
            else:
                left.append(line)
        room = max(0, SHOWN_LINES - self._shown.total())
        notes = [line for line in left[room:] if line.startswith("[") and line.endswith("]")][-2:]
        told = [*left[:room], *(notes if self._shown else [])]
        self.begin()
        return told, len(left) - len(told)
