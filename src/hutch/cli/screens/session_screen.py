"""One session in the full-screen app: its transcript and a prompt."""

from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Footer, Input, Static

from hutch.cli.api_client import Client
from hutch.cli.attached_conversation import Conversation
from hutch.cli.render.transcript import Line, Rendered
from hutch.cli.screens.dialogs import PatchScreen
from hutch.cli.screens.session_menu import MenuScreen
from hutch.cli.screens.transcript_panel import TranscriptView
from hutch.cli.screens.typed_line_parser import HELP, TypedInput
from hutch.cli.server_requests import short
from hutch.cli.session_client import ServedSessions
from hutch.domain.errors import HutchError
from hutch.system.terminal_safe_text import one_line

TICK_INTERVAL_S = 1.0


class SessionScreen(MenuScreen):
    has_general = False
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
        Binding("f2", "menu", "menu", priority=True),
        Binding("pageup", "page(-1)", show=False, priority=True),
        Binding("pagedown", "page(1)", show=False, priority=True),
    ]

    def __init__(self, client: Client, session: dict[str, Any]) -> None:
        super().__init__()
        self.conversation = Conversation(ServedSessions(client), session)
        self.client = client
        # Not found by queries: events may still come while the screen is being closed.
        self._transcript = TranscriptView()
        self._status = Static(id="status", markup=False)
        self._label = Static("> ", id="label", markup=False)
        self._input = Input(compact=True)

    def compose(self) -> ComposeResult:
        purpose = one_line(self.conversation.session["purpose"], 200)
        yield Static(f"{short(self.conversation.id)}  {purpose}", id="head", markup=False)
        yield self._transcript
        yield self._status
        with Horizontal(id="typing"):
            yield self._label
            yield self._input
        yield Footer(compact=True)

    def on_mount(self) -> None:
        self._input.focus()
        self._update_status()
        self._watch()
        self.set_interval(TICK_INTERVAL_S, self._tick)

    @work
    async def _watch(self) -> None:
        try:
            await self.conversation.watch(self._show)
        except HutchError as error:
            self._show([Line(str(error), "bad")])

    async def _tick(self) -> None:
        await self.conversation.refresh()
        self._update_status()

    def _show(self, items: list[Rendered]) -> None:
        self._transcript.put(items)
        self._update_status()

    def _update_status(self) -> None:
        self._status.update(self.conversation.status)
        self._status.set_class(self.conversation.question is not None, "asks")
        self._label.update(self.conversation.label)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.input.value = ""
        self._do(self.conversation.line(event.value), event.value)

    def _do(self, typed: TypedInput | None, text: str) -> None:
        match typed:
            case None:
                self._update_status()
            case TypedInput("help"):
                self.action_help()
            case TypedInput("leave"):
                self.action_leave()
            case TypedInput("unknown"):
                self._show([Line(str(typed.fields["why"]), "bad")])
            case TypedInput("diff"):
                self.action_diff()
            case _:
                self._give(typed, text)

    @work(group="give")
    async def _give(self, typed: TypedInput, text: str = "") -> None:
        """Send an input. If that fails, the typed text comes back, unless the user has typed on."""
        try:
            self._show(await self.conversation.give(typed))
        except HutchError as error:
            self._show([Line(str(error), "bad")])
            if not self._input.value:
                self._input.value, self._input.cursor_position = text, len(text)

    def action_give(self, kind: str) -> None:
        self._give(TypedInput(kind))

    def menu_session(self) -> dict[str, Any]:
        return {**self.conversation.session, "state": self.conversation.transcript.state}

    def action_leave(self) -> None:
        self.dismiss()

    def action_diff(self) -> None:
        self.app.push_screen(PatchScreen(self.client, self.conversation.session))

    def action_help(self) -> None:
        self._show([Line(line, "dim") for line in HELP])

    def action_page(self, by: int) -> None:
        self._transcript.page(by)
