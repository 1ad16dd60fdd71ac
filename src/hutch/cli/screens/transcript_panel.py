"""The panel of the full-screen app that shows a session live."""

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import RichLog, Static

from hutch.cli.render.layout import TerminalLines
from hutch.cli.render.transcript import Line, Rendered

MAX_LINES = 5000
MIN_COLUMNS = 30
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


class TranscriptView(Vertical):
    """Scrolling lines, with the unfinished line below them."""

    DEFAULT_CSS = """
    TranscriptView { height: 1fr; }
    TranscriptView RichLog { height: 1fr; background: $background; scrollbar-size-vertical: 1; }
    TranscriptView #unfinished { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._terminal_lines = TerminalLines()
        self._early: list[Rendered] = []  # items from before the width was known

    def compose(self) -> ComposeResult:
        yield RichLog(max_lines=MAX_LINES, min_width=0)
        yield Static(id="unfinished", markup=False)

    def on_mount(self) -> None:
        log = self.query_one(RichLog)
        log.can_focus = False
        log.anchor()  # its last lines stay visible when its height shrinks
        self.query_one("#unfinished").display = False

    def put(self, items: Sequence[Rendered]) -> None:
        """Append items."""
        if not self.size.width:
            self._early += items
            return
        log, unfinished = self.query_one(RichLog), self.query_one("#unfinished", Static)
        self._terminal_lines.columns = max(MIN_COLUMNS, self.size.width - 1)
        for line in self._terminal_lines.put(items):
            log.write(text_of(line, dark=self.app.current_theme.dark))
        unfinished.update(Text(self._terminal_lines.unfinished))
        unfinished.display = bool(self._terminal_lines.unfinished)

    def on_resize(self) -> None:
        early, self._early = self._early, []
        if early:
            self.put(early)

    def clear(self) -> None:
        self._terminal_lines, self._early = TerminalLines(), []
        self.query_one(RichLog).clear()
        self.query_one("#unfinished").display = False

    def page(self, by: int) -> None:
        """Scroll up or down."""
        log = self.query_one(RichLog)
        log.scroll_page_up(animate=False) if by < 0 else log.scroll_page_down(animate=False)
