"""The text that a terminal shows: an emulator of the xterm sequences that move, insert and erase text.

Colours and titles are dropped, because only text is wanted. Programs in a jail choose every byte, so each
sequence costs at most one pass over the rows or over one line, whatever its numbers say. A blank line is
None, so clearing a large screen is cheap.
"""

import codecs
import unicodedata
from collections import deque
from functools import lru_cache

from hutch.sessions.terminal_escape_sequence_grammar import MAX_HELD_CHARS, PARTIAL, TOKEN

MAX_HISTORY_LINES = 1000
MAX_NUMBER = 9999  # in a sequence
MAX_PARAMETER_CHARS = 64
MAX_CELL_CHARS = 8  # a character and those that combine with it
TAB = 8
LINES = str.maketrans("jklmnqtuvwx", "┘┐┌└┼─├┤┴┬│")  # the line-drawing set of DEC
ALTERNATE_MODES = frozenset({47, 1047, 1049})

Line = list[str] | None  # the cells; None is blank. The second cell of a wide character is empty.


class TerminalScreen:
    """A screen, the lines that scrolled off its top, and the cursor."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns, self.rows = columns, rows
        self.history: deque[str] = deque(maxlen=MAX_HISTORY_LINES)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""  # the beginning of a sequence
        self.reset()

    def reset(self) -> None:
        """Clear the screen and all modes; the history stays."""
        self.x = self.y = 0
        self._lines: list[Line] = [None] * self.rows
        self._main: list[Line] | None = None  # the main screen, while the alternate one is shown
        self._top, self._bottom = 0, self.rows - 1  # the lines that scroll
        self._wraps_next = False  # the cursor is behind the last column
        self._is_wrapping = True
        self._is_inserting = False
        self._draws_lines = [False, False]  # by character set
        self._set = 0
        self._saved = self._main_cursor = (0, 0)
        self._last = ""

    def resize(self, columns: int, rows: int) -> None:
        """Change the size; programs then redraw the screen."""
        if (columns, rows) == (self.columns, self.rows):
            return
        for lines in (self._lines, self._main):
            if lines is not None:
                lines[:] = [line and _fitted(line, columns) for line in lines]
        if (extra := self.y + 1 - rows) > 0:  # the lines at the cursor stay
            self._push_history(self._lines[:extra])
            del self._lines[:extra]
            self.y -= extra
        for lines in (self._lines, self._main):
            if lines is not None:
                lines[:] = [*lines, *[None] * rows][:rows]
        self.columns, self.rows = columns, rows
        self._top, self._bottom = 0, rows - 1
        self._move(self.x, self.y)

    def display(self, history_lines: int = 0) -> list[str]:
        """The lines as text, without spaces at their ends and blank lines at the end; before them, up to so
        many lines that scrolled off."""
        shown = [_text(line) for line in self._lines]
        while shown and not shown[-1]:
            shown.pop()
        before = list(self.history)[-history_lines:] if history_lines else []
        return [*before, *shown]

    def feed(self, data: bytes) -> None:
        """Show the next bytes of the output."""
        text = self._held + self._decoder.decode(data)
        self._held = ""
        if (partial := PARTIAL.search(text)) and len(partial[0]) <= MAX_HELD_CHARS:
            text, self._held = text[: partial.start()], partial[0]
        for token in TOKEN.finditer(text):
            match token.lastgroup:
                case "text":
                    self._print(token[0])
                case "control":
                    self._control(token[0])
                case "final":
                    if not token["between"]:
                        self._sequence(token["parameters"], token["final"])
                case "set":
                    self._draws_lines[token["which"] == ")"] = token["set"] == "0"
                case "escape":
                    self._escape(token["escape"])

    # --- text ---

    def _print(self, text: str) -> None:
        if self._draws_lines[self._set]:
            text = text.translate(LINES)
        if text.isascii() and not self._is_inserting:
            self._print_narrow(text)
        else:
            for character in text:
                self._print_one(character, _width(character))
        self._last = text[-1]

    def _print_narrow(self, text: str) -> None:
        """Print characters of one column each, a line at a time."""
        if not self._is_wrapping and len(text) > self.columns - self.x:
            text = text[: self.columns - self.x - 1] + text[-1]  # the rest overwrites the last column
        at = 0
        while at < len(text):
            if self._wraps_next:
                self._wrap()
            count = min(len(text) - at, self.columns - self.x)
            self._replace(self.x, text[at : at + count])
            at, self.x = at + count, self.x + count
            if self.x >= self.columns:
                self.x, self._wraps_next = self.columns - 1, self._is_wrapping

    def _print_one(self, character: str, width: int) -> None:
        if width == 0:
            self._combine(character)
            return
        if self._wraps_next or (width > self.columns - self.x and self._is_wrapping):
            self._wrap()
        width = min(width, self.columns - self.x)
        if self._is_inserting:
            self._insert_cells(width)
        self._replace(self.x, [character, ""][:width])
        self.x += width
        if self.x >= self.columns:
            self.x, self._wraps_next = self.columns - 1, self._is_wrapping

    def _combine(self, character: str) -> None:
        line, x = self._lines[self.y], self.x if self._wraps_next else self.x - 1
        if line is not None and x >= 0:
            x -= not line[x] and x > 0  # the first cell of a wide character
            if len(line[x]) < MAX_CELL_CHARS:
                line[x] += character

    def _wrap(self) -> None:
        self.x, self._wraps_next = 0, False
        self._feed_line()

    def _replace(self, x: int, cells: str | list[str]) -> None:
        line = self._line()
        end = x + len(cells)
        if line[x] == "" and x:
            line[x - 1] = " "  # half of a wide character
        if end < self.columns and line[end] == "":
            line[end] = " "
        line[x:end] = cells

    def _line(self) -> list[str]:
        line = self._lines[self.y]
        if line is None:
            line = self._lines[self.y] = [" "] * self.columns
        return line

    # --- controls ---

    def _control(self, control: str) -> None:
        match control:
            case "\b":
                self._move(self.x - 1, self.y)
            case "\t":
                self._move((self.x // TAB + 1) * TAB, self.y)
            case "\n" | "\v" | "\f":
                self._feed_line()
            case "\r":
                self._move(0, self.y)
            case "\x0e" | "\x0f":
                self._set = int(control == "\x0e")

    def _escape(self, final: str) -> None:
        match final:
            case "D":
                self._feed_line()
            case "E":
                self._move(0, self.y)
                self._feed_line()
            case "M":
                if self.y == self._top:
                    self._scroll(self._top, -1)
                else:
                    self._move(self.x, self.y - 1)
            case "7":
                self._saved = self.x, self.y
            case "8":
                self._move(*self._saved)
            case "c":
                self.reset()

    def _sequence(self, parameters: str, final: str) -> None:
        if len(parameters) > MAX_PARAMETER_CHARS:
            return
        is_private, numbers = parameters[:1] in "<=>?" and parameters != "", _numbers(parameters)
        if final in "hl":
            self._set_modes(numbers, on=final == "h", is_private=parameters.startswith("?"))
        elif not is_private:
            self._act(final, numbers[0], numbers[1] if len(numbers) > 1 else 0)

    def _act(self, final: str, first: int, second: int) -> None:
        count = first or 1
        match final:
            case "A" | "F":
                self._move(0 if final == "F" else self.x, max(self.y - count, self._limit(self._top, self.y)))
            case "B" | "E" | "e":
                limit = self._bottom if self.y <= self._bottom else self.rows - 1
                self._move(0 if final == "E" else self.x, min(self.y + count, limit))
            case "C" | "a":
                self._move(self.x + count, self.y)
            case "D":
                self._move(self.x - count, self.y)
            case "G" | "`":
                self._move(count - 1, self.y)
            case "d":
                self._move(self.x, count - 1)
            case "H" | "f":
                self._move((second or 1) - 1, count - 1)
            case "I":
                self._move((self.x // TAB + count) * TAB, self.y)
            case "Z":
                self._move(max(0, (self.x - 1) // TAB - count + 1) * TAB, self.y)
            case "s":
                self._saved = self.x, self.y
            case "u":
                self._move(*self._saved)
            case "r":
                self._set_margins(first, second)
            case "b":
                self._print(self._last * min(count, self.columns))
            case _:
                self._change(final, first, count)

    def _change(self, final: str, first: int, count: int) -> None:
        """The sequences that erase, insert and scroll."""
        match final:
            case "J":
                self._erase_display(first)
            case "K":
                self._erase_line(first)
            case "X":
                self._blank(self.x, self.x + count)
            case "@":
                self._insert_cells(count)
            case "P":
                line = self._line()
                count = min(count, self.columns - self.x)
                line[self.x :] = [*line[self.x + count :], *[" "] * count]
            case "L" | "M" if self._top <= self.y <= self._bottom:
                self._scroll(self.y, count if final == "M" else -count)
                self._move(0, self.y)
            case "S":
                self._scroll(self._top, count)
            case "T":
                self._scroll(self._top, -count)

    def _set_modes(self, numbers: list[int], *, on: bool, is_private: bool) -> None:
        for number in numbers:
            if not is_private:
                self._is_inserting = on if number == 4 else self._is_inserting
            elif number == 7:
                self._is_wrapping = on
            elif number in ALTERNATE_MODES:
                self._show_alternate(on, saves_cursor=number == 1049)

    def _show_alternate(self, on: bool, *, saves_cursor: bool) -> None:
        if on and self._main is None:
            self._main_cursor = self.x, self.y
            self._main, self._lines = self._lines, [None] * self.rows
        elif not on and self._main is not None:
            self._lines, self._main = self._main, None
            if saves_cursor:
                self._move(*self._main_cursor)

    # --- the cursor and the lines ---

    def _limit(self, top: int, y: int) -> int:
        return top if y >= top else 0

    def _move(self, x: int, y: int) -> None:
        self.x, self.y = max(0, min(x, self.columns - 1)), max(0, min(y, self.rows - 1))
        self._wraps_next = False

    def _set_margins(self, first: int, last: int) -> None:
        top, bottom = max(1, first) - 1, min(last or self.rows, self.rows) - 1
        if top < bottom:
            self._top, self._bottom = top, bottom
            self._move(0, 0)

    def _feed_line(self) -> None:
        if self.y == self._bottom:
            self._scroll(self._top, 1)
        elif self.y < self.rows - 1:
            self.y += 1
        self._wraps_next = False

    def _scroll(self, top: int, count: int) -> None:
        """Move the lines from `top` to the bottom margin up; with a negative count, down."""
        lines, end = self._lines, self._bottom + 1
        count = max(-(end - top), min(count, end - top))
        if count > 0:
            if top == 0 and self._main is None:
                self._push_history(lines[:count])
            del lines[top : top + count]
            lines[end - count : end - count] = [None] * count
        elif count < 0:
            del lines[end + count : end]
            lines[top:top] = [None] * -count

    def _push_history(self, lines: list[Line]) -> None:
        if self._main is None:
            self.history.extend(_text(line) for line in lines)

    def _erase_display(self, how: int) -> None:
        match how:
            case 0:
                self._erase_line(0)
                self._lines[self.y + 1 :] = [None] * (self.rows - self.y - 1)
            case 1:
                self._erase_line(1)
                self._lines[: self.y] = [None] * self.y
            case 2:
                self._lines[:] = [None] * self.rows
            case 3:
                self.history.clear()

    def _erase_line(self, how: int) -> None:
        match how:
            case 0:
                self._blank(self.x, self.columns)
            case 1:
                self._blank(0, self.x + 1)
            case 2:
                self._lines[self.y] = None

    def _blank(self, start: int, end: int) -> None:
        end = min(end, self.columns)
        if (line := self._lines[self.y]) is not None and end > start:
            line[start:end] = [" "] * (end - start)

    def _insert_cells(self, count: int) -> None:
        line = self._line()
        line[self.x :] = [*[" "] * min(count, self.columns - self.x), *line[self.x :]][
            : self.columns - self.x
        ]


def _text(line: Line) -> str:
    return "".join(line).rstrip() if line else ""


def _fitted(line: list[str], columns: int) -> list[str]:
    return [*line, *[" "] * columns][:columns]


def _numbers(parameters: str) -> list[int]:
    parts = parameters.lstrip("<=>?").replace(":", ";").split(";")
    return [min(int(part), MAX_NUMBER) if part.isascii() and part.isdigit() else 0 for part in parts]


@lru_cache(maxsize=4096)
def _width(character: str) -> int:
    """The columns that a character takes."""
    if unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in ("W", "F") else 1
