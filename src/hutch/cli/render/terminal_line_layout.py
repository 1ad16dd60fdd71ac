"""Lays out lines and parts of replies on a terminal: finished lines, and one unfinished line.

A reply that arrives in parts is wrapped at the terminal's width, so the unfinished text is never more
than one row.
"""

from collections.abc import Iterable

from rich.cells import cell_len, chop_cells

from hutch.cli.render.binary_patch_summary import without_binary_content
from hutch.cli.render.transcript import Line, Rendered, Style
from hutch.system.terminal_safe_text import visible

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
    """Wraps output into lines, and buffers the unfinished one."""

    def __init__(self, columns: int = 80) -> None:
        self.columns = columns
        self.unfinished = ""

    def put(self, items: Iterable[Rendered]) -> list[Line]:
        """Add items; return the lines that they finish."""
        done: list[Line] = []
        for each in items:
            if isinstance(each, Line):
                done += self.end()
                done += self._wrapped(each)
            else:
                done += self._write(visible(each.text, lines=True).replace("\t", TAB))
                done += self.end() if each.end else []
        return done

    def end(self) -> list[Line]:
        """Finish the unfinished line."""
        text, self.unfinished = self.unfinished, ""
        return [Line(text)] if text.strip() else []

    def _write(self, text: str) -> list[Line]:
        done: list[Line] = []
        *whole, last = text.split("\n")
        for part in whole:
            self.unfinished += part
            done += [*self._full(), Line(self.unfinished)]
            self.unfinished = ""
        self.unfinished += last
        return done + self._full()

    def _full(self) -> list[Line]:
        """The full rows of the unfinished line; the rest stays unfinished."""
        *done, self.unfinished = self._rows(self.unfinished)
        return [Line(row) for row in done]

    def _wrapped(self, line: Line) -> list[Line]:
        """A line as rows; all but the first are indented."""
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
        """Split text into rows at the terminal's width, after a space if possible."""
        if self.columns == UNBOUNDED:
            return [text]
        rows = []
        width = self.columns - 3
        while cell_len(text) > width:
            head = chop_cells(text, width)[0]
            space = text[: len(head) + 1].rfind(" ")
            at = space + 1 if space > width // 2 else len(head)
            rows.append(text[:at].rstrip())
            text = text[at:]
        return [*rows, text]


def coloured(line: Line) -> str:
    """A line with its colours as escape sequences."""
    colour = COLOURS[line.style]
    lead = f"{BOLD}{colour}{line.lead}{OFF}" if line.lead else ""
    return f"{lead}{colour}{line.text}{OFF}" if colour else f"{lead}{line.text}"


def plain(line: Line) -> str:
    return f"{line.lead}{line.text}"


def patch_lines(patch: str) -> list[Line]:
    """A patch in colour, without the content of binary files."""
    patch = without_binary_content(patch)
    head = ("+++", "---", "diff ", "index ")
    return [
        Line(visible(line), "strong" if line.startswith(head) else PATCH_STYLES.get(line[:1], "plain"))
        for line in (patch.removesuffix("\n").split("\n") if patch else ())
    ]
