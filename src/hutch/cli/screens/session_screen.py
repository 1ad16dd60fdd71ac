"""One session on the full screen: what happens in it, and a line to type on."""

from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen
from textual.widgets import Footer, Input, Static

from hutch.cli.client import Client
from hutch.cli.render.transcript import Line, Shown
from hutch.cli.screens.conversation import Conversation
from hutch.cli.screens.dialogs import PatchScreen
from hutch.cli.screens.transcript_panel import TranscriptView
from hutch.cli.screens.typed_line import HELP, Said
from hutch.cli.server_requests import short
from hutch.cli.session_client import ServedSessions
from hutch.domain.errors import HutchError
from hutch.system.terminal_text import one_line

TICK_S = 1.0


class SessionScreen(Screen[None]):
    """A visit."""

    CSS = """
    #head { height: 1; background: $primary; color: $text; padding: 0 1; text-style: bold; }
    #status { height: 1; color: $text-muted; background: $surface; padding: 0 1; }
    #status.asks { background: $warning; color: $text; }
    #typing { height: 1; background: $surface; }
    #label { width: auto; padding: 0 0 0 1; text-style: bold; }
    SessionScreen TranscriptView { padding: 0 1; }
    SessionScreen Input { width: 1fr; background: $surface; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "back", priority=True),
        Binding("ctrl+c", "leave", show=False, priority=True),
        Binding("ctrl+p", "give('pause')", "pause", priority=True),
        Binding("ctrl+r", "give('resume')", "resume", priority=True),
        Binding("ctrl+x", "give('cancel')", "cancel run", priority=True),
        Binding("ctrl+d", "diff", "diff", priority=True),
        Binding("f1", "help", "help", priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    def __init__(self, client: Client, session: dict[str, Any]) -> None:
        super().__init__()
        self.talk = Conversation(ServedSessions(client), session)
        self._client = client

    def compose(self) -> ComposeResult:
        purpose = one_line(self.talk.session["purpose"], 200)
        yield Static(f"{short(self.talk.id)}  {purpose}", id="head", markup=False)
        yield TranscriptView()
        yield Static(id="status", markup=False)
        with Horizontal(id="typing"):
            yield Static("> ", id="label", markup=False)
            yield Input(compact=True)
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self.query_one(Input).focus()
        self._look()
        self._watch()
        self.set_interval(TICK_S, self._tick)

    @work
    async def _watch(self) -> None:
        try:
            await self.talk.watch(self._show)
        except HutchError as error:
            self._show([Line(str(error), "bad")])

    async def _tick(self) -> None:
        await self.talk.look()
        self._look()

    def _show(self, shown: list[Shown]) -> None:
        self.query_one(TranscriptView).put(shown)
        self._look()

    def _look(self) -> None:
        status = self.query_one("#status", Static)
        status.update(self.talk.status)
        status.set_class(self.talk.asked is not None, "asks")
        self.query_one("#label", Static).update(self.talk.label)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.value = ""
        self._do(self.talk.line(event.value))

    def _do(self, said: Said | None) -> None:
        match said:
            case None:
                self._look()
            case Said("help"):
                self.action_help()
            case Said("leave"):
                self.action_leave()
            case Said("unknown"):
                self._show([Line(str(said.fields["why"]), "bad")])
            case Said("diff"):
                self.action_diff()
            case _:
                self._give(said)

    @work(group="give")
    async def _give(self, said: Said) -> None:
        self._show(await self.talk.give(said))

    def action_give(self, kind: str) -> None:
        self._give(Said(kind))

    def action_leave(self) -> None:
        self.dismiss()

    def action_diff(self) -> None:
        self.app.push_screen(PatchScreen(self._client, self.talk.session))

    def action_help(self) -> None:
        self._show([Line(line, "dim") for line in HELP])

    def action_page(self, by: int) -> None:
        self.query_one(TranscriptView).page(by)
