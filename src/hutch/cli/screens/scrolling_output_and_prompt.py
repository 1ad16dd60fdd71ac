"""Scrolling output with a status line and a prompt below it.

Finished lines go into the terminal's own scrollback. The last rows, which are the unfinished line, the
status and the prompt, are redrawn after each change.
"""

import os
import sys
import termios
import tty
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from rich.cells import cell_len, set_cell_size

from hutch.cli.render.terminal_line_layout import BOLD, OFF, TerminalLines, coloured
from hutch.cli.render.transcript import Rendered
from hutch.cli.screens.line_editor import LineEditor

DIM = "\x1b[2m"
MARKED_PASTES, PLAIN_PASTES = "\x1b[?2004h", "\x1b[?2004l"
BEGIN_UPDATE, END_UPDATE = "\x1b[?2026h", "\x1b[?2026l"  # terminals that support it avoid half-drawn rows


class PromptScreen:
    """Draws on the user's terminal within `opened`."""

    def __init__(self) -> None:
        self.editor = LineEditor()
        self.label = "> "
        self.status = ""
        self.layout = TerminalLines(self._columns())
        self._above = 0  # rows drawn above the prompt
        self._drawn = False
        self._last: tuple[list[str], str] = ([], "")
        self._saved: list[Any] = []

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Read keys one by one, and restore the terminal afterwards."""
        self._saved = termios.tcgetattr(0)
        try:
            self._take()
            yield
        finally:
            self._give_back()

    @contextmanager
    def given_back(self) -> Iterator[None]:
        """Restore the terminal while the process is suspended."""
        self._give_back()
        try:
            yield
        finally:
            self._take()
            self.draw()

    def show(self, items: Iterable[Rendered]) -> None:
        """Print items above the prompt."""
        self.layout.columns = self._columns()
        lines = "".join(f"{coloured(line)}\r\n" for line in self.layout.put(items))
        if lines:
            self._write(lines)
        else:
            self.draw()

    def draw(self) -> None:
        """Redraw the last rows if they have changed."""
        if not self._drawn or self._rows() != self._last:
            self._write("")

    def end_line(self) -> None:
        """Finish the unfinished line."""
        self._write("".join(f"{coloured(line)}\r\n" for line in self.layout.end()))

    def _take(self) -> None:
        tty.setcbreak(0, termios.TCSADRAIN)
        modes = termios.tcgetattr(0)
        modes[3] &= ~termios.ISIG  # Ctrl-C and Ctrl-Z arrive as keys
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
        """The rows above the prompt, and the prompt with the cursor in position."""
        columns = self._columns()
        above = [row for row in (self.layout.unfinished,) if row]
        above.append(DIM + set_cell_size(self.status, columns - 1).rstrip() + OFF)
        typed, at = self._typed(columns)
        return above, f"{typed}\r\x1b[{at}C"

    def _write(self, lines: str) -> None:
        above, typed = self._last = self._rows()
        rows = "".join(f"{row}\r\n" for row in above) + typed
        sys.stdout.write(f"{BEGIN_UPDATE}{self._to_top()}{lines}{rows}{END_UPDATE}")
        sys.stdout.flush()
        self._drawn, self._above = True, len(above)

    def _typed(self, columns: int) -> tuple[str, int]:
        """The prompt row, and the column of the cursor in it."""
        label = self.label if cell_len(self.label) < columns // 2 else "> "
        width = columns - cell_len(label) - 1
        text = self.editor.text.replace("\n", "⏎").replace("\t", " ")
        start = 0
        while cell_len(text[start : self.editor.cursor]) >= width:
            start += 1  # the text is wider than the row: show the part before the cursor
        visible = text[start:]
        while cell_len(visible) > width:
            visible = visible[:-1]
        return f"{BOLD}{label}{OFF}{visible}", cell_len(label) + cell_len(text[start : self.editor.cursor])

    @staticmethod
    def _columns() -> int:
        try:
            return max(20, os.get_terminal_size(1).columns)
        except OSError:
            return 80
