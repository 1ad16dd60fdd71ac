"""A part of the full screen on which a session is shown as it goes on."""

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import RichLog, Static

from hutch.cli.render.layout import TerminalLines
from hutch.cli.render.transcript import Line, Shown

MAX_LINES = 5000
NARROWEST = 30
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
    """Lines that scroll, and the one that is being written under them."""

    DEFAULT_CSS = """
    TranscriptView { height: 1fr; }
    TranscriptView RichLog { height: 1fr; background: $background; scrollbar-size-vertical: 1; }
    TranscriptView #begun { height: auto; }
    """

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._paper = TerminalLines()
        self._early: list[Shown] = []  # came before it was known how wide this is

    def compose(self) -> ComposeResult:
        yield RichLog(max_lines=MAX_LINES, min_width=0)
        yield Static(id="begun", markup=False)

    def on_mount(self) -> None:
        log = self.query_one(RichLog)
        log.can_focus = False
        log.anchor()  # when it gets lower, its last lines stay visible
        self.query_one("#begun").display = False

    def put(self, shown: Sequence[Shown]) -> None:
        """Show more."""
        if not self.size.width:
            self._early += shown
            return
        log, begun = self.query_one(RichLog), self.query_one("#begun", Static)
        self._paper.columns = max(NARROWEST, self.size.width - 1)
        for line in self._paper.put(shown):
            log.write(text_of(line, dark=self.app.current_theme.dark))
        begun.update(Text(self._paper.begun))
        begun.display = bool(self._paper.begun)

    def on_resize(self) -> None:
        early, self._early = self._early, []
        if early:
            self.put(early)

    def clear(self) -> None:
        self._paper, self._early = TerminalLines(), []
        self.query_one(RichLog).clear()
        self.query_one("#begun").display = False

    def page(self, by: int) -> None:
        """Scroll up or down."""
        log = self.query_one(RichLog)
        log.scroll_page_up(animate=False) if by < 0 else log.scroll_page_down(animate=False)
