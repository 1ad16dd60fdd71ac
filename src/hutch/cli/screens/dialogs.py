"""Dialogs and overlays of the full-screen app."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen, Screen
from textual.widgets import Footer, Input, Label, RichLog, Static

from hutch.cli.api_client import Client
from hutch.cli.render.terminal_line_layout import patch_lines
from hutch.cli.render.transcript import Line
from hutch.cli.screens.transcript_panel import text_of
from hutch.cli.screens.typed_line_parser import answer_to
from hutch.cli.server_requests import short
from hutch.domain.errors import HutchError
from hutch.system.terminal_safe_text import visible

BOX = """
{name} {{ align: center middle; }}
{name} > Vertical {{
    width: 76; max-width: 100%; height: auto; max-height: 100%;
    border: round $primary; background: $surface; padding: 1 2;
}}
{name} .hint {{ color: $text-muted; margin-top: 1; }}
"""
HELP = """\
enter  watch the session, talk to its agent, answer its questions
n      new session              d      show its changes
p      pause it                 r      resume it
c      cancel its run           x      end it
/      search; Escape ends it   t      light or dark
m      menu: merge, edit, terminal, log, undo, settings; F2 in a session
q      quit; sessions continue"""
FIELDS = (
    ("prompt", "The task"),
    ("repository", "A directory or an address; empty for an empty workspace"),
    ("persona", "The agent's persona; empty for the default"),
    ("model", "provider:name; empty for the default"),
)


class NewSession(ModalScreen[str]):
    """The form for a new session. It stays open until the session is created; its result is the id."""

    CSS = BOX.format(name="NewSession") + (
        "NewSession Label { margin-top: 1; } NewSession .problem { color: $text-error; margin-top: 1; }"
    )
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "dismiss('')", "back", priority=True)]

    def __init__(self, create: Callable[[dict[str, str]], Awaitable[str]], *, local: bool) -> None:
        super().__init__()
        self._create, self._local = create, local

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static("New session", markup=False)
            for name, help_ in FIELDS:
                here = (
                    str(Path.cwd()) if name == "repository" and self._local and Path(".git").exists() else ""
                )
                yield Label(name)
                yield Input(here, placeholder=help_, id=name, compact=True)
            yield Static("Tab: next field, Enter: create, Escape: cancel", classes="hint", markup=False)
            yield Static(classes="problem", markup=False)

    def on_mount(self) -> None:
        self.query_one(".problem").display = False

    @work(exclusive=True)
    async def on_input_submitted(self) -> None:
        problem = self.query_one(".problem", Static)
        problem.display = False
        try:
            created = await self._create(
                {name: self.query_one(f"#{name}", Input).value.strip() for name, _ in FIELDS}
            )
        except HutchError as error:
            problem.update(visible(str(error), lines=True))
            problem.display = True
        else:
            self.dismiss(created)


class Confirm(ModalScreen[bool]):
    """A question; only `y` or `yes` with Enter confirms it."""

    CSS = BOX.format(name="Confirm")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+c", "dismiss(False)", "no", priority=True),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(compact=True)
            yield Static("Type yes and press Enter, or press Escape", classes="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(Input).focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(answer_to(event.value) == "once")


class Help(ModalScreen[None]):
    """Explains the keys."""

    CSS = BOX.format(name="Help")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,enter,question_mark,ctrl+c", "dismiss", "back", priority=True)
    ]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(HELP, markup=False)
            yield Static("Escape goes back", classes="hint", markup=False)


class PatchScreen(Screen[None]):
    """The changes in a session, as a patch."""

    CSS = """
    PatchScreen #head { height: 1; background: $primary; color: $text; padding: 0 1; text-style: bold; }
    PatchScreen RichLog { background: $background; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d,ctrl+c", "dismiss", "back", priority=True),
    ]

    def __init__(self, client: Client, session: dict[str, Any]) -> None:
        super().__init__()
        self._client, self._session = client, session

    def compose(self) -> ComposeResult:
        yield Static(f"Changes in {short(self._session['id'])}", id="head", markup=False)
        yield RichLog(min_width=0, auto_scroll=False)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one(RichLog).focus()
        self._load()

    @work
    async def _load(self) -> None:
        lines: list[Line]
        try:
            found = await self._client.get(f"/sessions/{self._session['id']}/diff")
            lines = patch_lines(found["patch"]) or [Line("There are no changes.", "dim")]
            lines += [Line("The patch is too long; the rest is not shown.", "bad")] if found["cut"] else []
        except HutchError as error:
            lines = [Line(str(error), "bad")]
        log = self.query_one(RichLog)
        for line in lines:
            log.write(text_of(line, dark=self.app.current_theme.dark))
