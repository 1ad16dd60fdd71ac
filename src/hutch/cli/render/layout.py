"""Lines and pieces of text, laid out on a terminal: what is finished, and what is still being written.

Words of a reply that comes in pieces are wrapped where the terminal ends, so that the line
that is being written is never more than one.
"""

from collections.abc import Iterable

from rich.cells import cell_len, chop_cells

from hutch.cli.render.transcript import Line, Shown, Style
from hutch.system.terminal_text import visible

TAB = "    "
COLOURS = {
    "plain": "",
    "strong": "\x1b[1m",
    "dim": "\x1b[2m",
    "you": "\x1b[36m",
    "good": "\x1b[32m",
    "bad": "\x1b[31m",
    "added": "\x1b[32m",
    "removed": "\x1b[31m",
}
PATCH_STYLES: dict[str, Style] = {"+": "added", "-": "removed", "@": "dim"}
UNBOUNDED = 10**9  # columns: no line is wrapped
BOLD, OFF = "\x1b[1m", "\x1b[0m"


class TerminalLines:
    """What goes onto it line by line."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self.begun = ""  # the line that is being written

    def put(self, shown: Iterable[Shown]) -> list[Line]:
        """Lay it out; the lines that are finished by it."""
        done: list[Line] = []
        for each in shown:
            if isinstance(each, Line):
                done += self.end()
                done += self._wrapped(each)
            else:
                done += self._write(visible(each.text, lines=True).replace("\t", TAB))
                done += self.end() if each.end else []
        return done

    def end(self) -> list[Line]:
        """Nothing more comes to the line that is being written."""
        begun, self.begun = self.begun, ""
        return [Line(begun)] if begun.strip() else []

    def _write(self, text: str) -> list[Line]:
        done: list[Line] = []
        *whole, last = text.split("\n")
        for part in whole:
            self.begun += part
            done += [*self._full(), Line(self.begun)]
            self.begun = ""
        self.begun += last
        return done + self._full()

    def _full(self) -> list[Line]:
        """Lines that the one being written has become too long for."""
        *done, self.begun = self._rows(self.begun)
        return [Line(row) for row in done]

    def _wrapped(self, line: Line) -> list[Line]:
        """A line as rows; all but the first are indented a little."""
        if cell_len(line.lead) > self.columns // 2:
            line = Line(line.lead + line.text, line.style)
        first, *more = line.text.split("\n")
        rows = self._rows(line.lead + first)
        done = [Line(rows[0][len(line.lead) :], line.style, line.lead)]
        done += [Line(f"  {row}", line.style) for row in rows[1:]]
        for text in more:
            done += [Line(f"  {row}", line.style) for row in self._rows(text)]
        return done

    def _rows(self, text: str) -> list[str]:
        """Text where the terminal ends, after a space if there is one."""
        if self.columns == UNBOUNDED:
            return [text]
        rows = []
        room = self.columns - 3
        while cell_len(text) > room:
            head = chop_cells(text, room)[0]
            space = text[: len(head) + 1].rfind(" ")
            at = space + 1 if space > room // 2 else len(head)
            rows.append(text[:at].rstrip())
            text = text[at:]
        return [*rows, text]


def coloured(line: Line) -> str:
    """A line as a terminal shows it."""
    colour = COLOURS[line.style]
    lead = f"{BOLD}{colour}{line.lead}{OFF}" if line.lead else ""
    return f"{lead}{colour}{line.text}{OFF}" if colour else f"{lead}{line.text}"


def plain(line: Line) -> str:
    return f"{line.lead}{line.text}"


def patch_lines(patch: str) -> list[Line]:
    """A patch in colour."""
    head = ("+++", "---", "diff ", "index ")
    return [
        Line(visible(line), "strong" if line.startswith(head) else PATCH_STYLES.get(line[:1], "plain"))
        for line in (patch.removesuffix("\n").split("\n") if patch else ())
    ]
