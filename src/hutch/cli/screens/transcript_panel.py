"""The panel of the full-screen app that shows a session live."""

from collections import deque
from collections.abc import Iterable, Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import RichLog, Static

from hutch.cli.render.terminal_line_layout import TerminalLines
from hutch.cli.render.transcript import Line, Rendered, ReplyPart

MAX_LINES = 5000
MIN_COLUMNS = 30
MAX_PART_CHARS = 1000  # parts of a reply are joined up to this length
DARK = {
    "plain": "",
    "strong": "bold",
    "dim": "dim",
    "you": "bright_cyan",
    "good": "bright_green",
    "bad": "bright_red",
    "added": "bright_green",
    "removed": "bright_red",
}
LIGHT = DARK | {
    "you": "dark_cyan",
    "good": "dark_green",
    "bad": "dark_red",
    "added": "dark_green",
    "removed": "dark_red",
}


def text_of(line: Line, *, dark: bool) -> Text:
    """A line in the colours of a theme."""
    style = (DARK if dark else LIGHT)[line.style]
    return Text.assemble((line.lead, f"bold {style}".strip()), (line.text, style), no_wrap=True)


def _can_grow(part: ReplyPart) -> bool:
    return not part.end and len(part.text) < MAX_PART_CHARS


class TranscriptView(Vertical):
    """Scrolling lines, with the unfinished line below them. A new width or theme renders them again."""

    DEFAULT_CSS = """
    TranscriptView { height: 1fr; }
    TranscriptView RichLog { height: 1fr; background: $background; scrollbar-size-vertical: 1; }
    TranscriptView #unfinished { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._terminal_lines = TerminalLines()
        self._items: deque[Rendered] = deque(maxlen=MAX_LINES)
        self._columns = 0  # of the rendered items; 0 until the width is known
        # Not found by a query: lines may still come while the screen is being closed.
        self._log = RichLog(max_lines=MAX_LINES, min_width=0)
        self._unfinished = Static(id="unfinished", markup=False)

    def compose(self) -> ComposeResult:
        yield self._log
        yield self._unfinished

    def on_mount(self) -> None:
        self._log.can_focus = False
        self._log.anchor()  # its last lines stay visible when its height shrinks
        self._unfinished.display = False
        self.watch(self.app, "theme", self._render_again, init=False)

    def put(self, items: Sequence[Rendered]) -> None:
        """Append items."""
        for each in items:
            last = self._items[-1] if self._items else None
            if isinstance(each, ReplyPart) and isinstance(last, ReplyPart) and _can_grow(last):
                self._items[-1] = ReplyPart(last.text + each.text, each.end)
            else:
                self._items.append(each)
        if self._columns:
            self._write(items)

    def on_resize(self) -> None:
        columns = max(MIN_COLUMNS, self.size.width - 1)
        if self.size.width and columns != self._columns:
            self._columns = columns
            self._render_again()

    def _render_again(self) -> None:
        log = self._log
        # The share of the text above the window stays the same when the window does not show the end.
        above = log.scroll_y / log.max_scroll_y if log.scroll_y < log.max_scroll_y else 1.0
        self._terminal_lines = TerminalLines(self._columns)
        log.clear()
        self._write(self._items, scroll_end=above == 1.0)
        if above < 1.0:
            self.call_after_refresh(lambda: log.scroll_to(y=round(above * log.max_scroll_y), animate=False))

    def _write(self, items: Iterable[Rendered], *, scroll_end: bool | None = None) -> None:
        for line in self._terminal_lines.put(items):
            self._log.write(text_of(line, dark=self.app.current_theme.dark), scroll_end=scroll_end)
        self._unfinished.update(Text(self._terminal_lines.unfinished))
        self._unfinished.display = bool(self._terminal_lines.unfinished)

    def clear(self) -> None:
        self._terminal_lines = TerminalLines(self._columns)
        self._items.clear()
        self._log.clear()
        self._unfinished.display = False

    def page(self, by: int) -> None:
        """Scroll up or down."""
        self._log.scroll_page_up(animate=False) if by < 0 else self._log.scroll_page_down(animate=False)
