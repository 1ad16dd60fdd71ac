"""Output that scrolls, and under it a line to type on while it does.

What is finished goes into the terminal's own scrollback. The last rows, the line that is
being written, one that says how things are, and the one to type on, are drawn anew each time.
"""

import os
import sys
import termios
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.cells import cell_len, set_cell_size

from hutch.cli.render.layout import BOLD, OFF, TerminalLines, coloured
from hutch.cli.render.transcript import Shown
from hutch.cli.screens.line_editor import LineEditor

DIM = "\x1b[2m"
MARKED_PASTES, PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"
ALL_AT_ONCE, NOW = "\x1b[?2026h", "\x1b[?2026l"  # a terminal that knows it shows no half-drawn rows


class PromptScreen:
    """The user's terminal, from `opened` on."""

    def __init__(self) -> None:
        self.editor = LineEditor()
        self.label = "> "
        self.status = ""
        self.paper = TerminalLines(self._columns())
        self._above = 0  # rows that we have drawn above the one to type on
        self._drawn = False
        self._last: tuple[list[str], str] = ([], "")
        self._saved: list[Any] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Take the keys one by one, and give the terminal back as it was."""
        self._saved = termios.tcgetattr(0)
        try:
            self._take()
            yield
        finally:
            self._give_back()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """For as long as we are stopped."""
        self._give_back()
        try:
            yield
        finally:
            self._take()
            self.draw()

    def show(self, shown: Iterable[Shown]) -> None:
        """Put something above the line to type on."""
        self.paper.columns = self._columns()
        lines = "".join(f"{coloured(line)}\r\n" for line in self.paper.put(shown))
        if lines:
            self._write(lines)
        else:
            self.draw()

    def draw(self) -> None:
        """Draw the last rows again, when something in them has changed."""
        if not self._drawn or self._rows() != self._last:
            self._write("")

    def end_line(self) -> None:
        """Finish the line that is being written."""
        self._write("".join(f"{coloured(line)}\r\n" for line in self.paper.end()))

    def _take(self) -> None:
        tty.setcbreak(0, termios.TCSADRAIN)
        modes = termios.tcgetattr(0)
        modes[3] &= ~termios.ISIG  # Ctrl-C and Ctrl-Z come as keys
        modes[0] &= ~termios.ICRNL
        termios.tcsetattr(0, termios.TCSADRAIN, modes)
        sys.stdout.write(MARKED_PASTES)
        sys.stdout.flush()

    def _give_back(self) -> None:
        sys.stdout.write(self._to_top() + PLAIN_PASTES)
        sys.stdout.flush()
        self._drawn, self._above = False, 0
        with suppress(termios.error):  # it may be gone
            termios.tcsetattr(0, termios.TCSADRAIN, self._saved)

    def _to_top(self) -> str:
        up = f"\x1b[{self._above}A" if self._above else ""
        return f"\r{up}\x1b[J" if self._drawn else ""

    def _rows(self) -> tuple[list[str], str]:
        """The rows above the one to type on, and that one, with the cursor put in its place."""
        columns = self._columns()
        above = [row for row in (self.paper.begun,) if row]
        above.append(DIM + set_cell_size(self.status, columns - 1).rstrip() + OFF)
        typed, at = self._typed(columns)
        return above, f"{typed}\r\x1b[{at}C"

    def _write(self, lines: str) -> None:
        above, typed = self._last = self._rows()
        rows = "".join(f"{row}\r\n" for row in above) + typed
        sys.stdout.write(f"{ALL_AT_ONCE}{self._to_top()}{lines}{rows}{NOW}")
        sys.stdout.flush()
        self._drawn, self._above = True, len(above)

    def _typed(self, columns: int) -> tuple[str, int]:
        """The row to type on, and the column of the cursor in it."""
        label = self.label if cell_len(self.label) < columns // 2 else "> "
        room = columns - cell_len(label) - 1
        text = self.editor.text.replace("\n", "⏎").replace("\t", " ")
        start = 0
        while cell_len(text[start : self.editor.cursor]) >= room:
            start += 1  # what is typed is longer than the row: its end is what counts
        seen = text[start:]
        while cell_len(seen) > room:
            seen = seen[:-1]
        return f"{BOLD}{label}{OFF}{seen}", cell_len(label) + cell_len(text[start : self.editor.cursor])

    @staticmethod
    def _columns() -> int:
        try:
            return max(20, os.get_terminal_size(1).columns)
        except OSError:
            return 80
