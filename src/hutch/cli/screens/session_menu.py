"""The menu of the full-screen app: frequent actions on a session, each with its key.

It shows the command line of each entry too, so users learn what to type without the menu.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.events import Key
from textual.screen import ModalScreen, Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from hutch.cli.api_client import Client
from hutch.cli.editing.editor import keys_ignored
from hutch.cli.screens.dialogs import BOX, Confirm, PatchScreen
from hutch.cli.server_requests import short
from hutch.domain.errors import HutchError
from hutch.system.terminal_safe_text import one_line, visible

START = "import sys; from hutch.cli.main import run; sys.exit(run(sys.argv[1:]))"
BUSY = ("running", "waiting")


class Entry(NamedTuple):
    """A line of the menu."""

    key: str
    name: str  # of the method `menu_…`
    label: str
    command: str = ""  # that does the same
    states: tuple[str, ...] = ()  # of the session in which it is shown; empty: all but ended
    after_end: bool = False


ENTRIES = (
    Entry("a", "attach", "Attach: watch, talk, approve", "hutch attach {0}", after_end=True),
    Entry("d", "diff", "Show its changes", "hutch diff {0}", after_end=True),
    Entry("m", "merge", "Merge its change", "hutch changes merge", after_end=True),
    Entry("t", "tests", "Run its tests", "hutch test -s {0}"),
    Entry("e", "edit", "Edit a file in your editor", "hutch edit {0} PATH"),
    Entry("s", "shell", "Open a terminal in it", "hutch shell {0}"),
    Entry("l", "log", "Show its log", "hutch log {0}", after_end=True),
    Entry("u", "undo", "Undo its last run", "hutch undo {0}", ("idle", "parked", "paused")),
    Entry("p", "pause", "Pause it", "hutch sessions pause {0}", ("idle", "parked", *BUSY, "queued")),
    Entry("r", "resume", "Resume it", "hutch sessions resume {0}", ("paused",)),
    Entry("c", "cancel", "Cancel its run", "hutch sessions cancel {0}", BUSY),
    Entry("x", "end", "End it", "hutch sessions end {0}"),
)
GENERAL = (
    Entry("n", "new", "New session", "hutch sessions new"),
    Entry("o", "settings", "Show the settings", "hutch config show"),
)


def entries_for(session: dict[str, Any] | None, *, is_local: bool) -> list[Entry]:
    """The entries that fit a session, then those that need none."""
    if session is None:
        return [*GENERAL]
    state = str(session["state"])
    fitting = [
        entry
        for entry in ENTRIES
        if (is_local or entry.name != "log")  # it reads the log of this machine
        and (state in entry.states if entry.states else state != "ended" or entry.after_end)
    ]
    return [*fitting, *GENERAL]


class Menu(ModalScreen[str]):
    """A list of entries; a key or Enter chooses one. The result is its name; empty for none."""

    CSS = BOX.format(name="Menu") + "Menu OptionList { height: auto; max-height: 16; border: none; }"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,ctrl+c", "dismiss('')", "back", priority=True)]

    def __init__(self, title: str, entries: Sequence[Entry], session_id: str) -> None:
        super().__init__()
        self._title, self._entries = title, entries
        self._session = short(session_id) if session_id else ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False)
            lines = (
                f"{each.key}  {each.label:<30}{each.command.format(self._session)}" for each in self._entries
            )
            yield OptionList(*(Option(line) for line in lines), markup=False)
            yield Static("A key or Enter chooses, Escape goes back", classes="hint", markup=False)

    def on_mount(self) -> None:
        self.query_one(OptionList).focus()

    def on_key(self, event: Key) -> None:
        for entry in self._entries:
            if event.key == entry.key:
                event.stop()
                self.dismiss(entry.name)

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._entries[event.option_index].name)


class Ask(ModalScreen[str]):
    """A question with a line of text as its answer; empty for none."""

    CSS = BOX.format(name="Ask")
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,ctrl+c", "dismiss('')", "back", priority=True)]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._question, markup=False)
            yield Input(compact=True)
            yield Static("Enter: go on, Escape: cancel", classes="hint", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        self.dismiss(event.value.strip())


class MenuScreen(Screen[None]):
    """A screen with the menu; subclasses say for which session, and what attach and new do there."""

    client: Client
    has_general = True  # the menu has entries that need no session

    def menu_session(self) -> dict[str, Any] | None:
        """The session that the menu is for."""
        raise NotImplementedError

    def action_menu(self) -> None:
        session = self.menu_session()
        entries = entries_for(session, is_local=self.client.address.kind == "local")
        if not self.has_general:
            entries = [each for each in entries if each not in GENERAL and each.name != "attach"]
        title = "Menu" if session is None else f"{short(session['id'])}  {one_line(session['purpose'], 60)}"

        def chosen(name: str | None) -> None:
            if name:
                getattr(self, f"menu_{name}")(session)

        self.app.push_screen(Menu(title, entries, session["id"] if session else ""), chosen)

    # --- entries ---

    def menu_diff(self, session: dict[str, Any]) -> None:
        self.app.push_screen(PatchScreen(self.client, session))

    @work(group="menu")
    async def menu_merge(self, session: dict[str, Any]) -> None:
        try:
            found = await self.client.get("/changes", session=session["id"], state="open", limit=1)
        except HutchError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if not found["items"]:
            self.notify(
                "This session has no open change. Deliver one first: hutch changes deliver", markup=False
            )
            return
        change = found["items"][0]
        question = f"Merge {change['id']}, {one_line(change['title'], 60)}, into {change['base']}?"
        if await self.app.push_screen_wait(Confirm(question)):
            try:
                merged = await self.client.post(f"/changes/{change['id']}/merge")
            except HutchError as error:
                self.notify(visible(str(error), lines=True), severity="error", markup=False, timeout=15)
                return
            self.notify(f"Merged into {change['base']} as {merged['commit'][:12]}.", markup=False)

    def menu_tests(self, session: dict[str, Any]) -> None:
        self._run("test", "--session", session["id"])

    def menu_edit(self, session: dict[str, Any]) -> None:
        def answered(path: str | None) -> None:
            if path:
                self._run("edit", session["id"], "--", path)

        self.app.push_screen(Ask("The path of the file in the session:"), answered)

    def menu_shell(self, session: dict[str, Any]) -> None:
        self._run("shell", "--session", session["id"])

    def menu_log(self, session: dict[str, Any]) -> None:
        self._run("log", session["id"])

    def menu_settings(self, session: dict[str, Any] | None) -> None:
        self._run("config", "show")

    def menu_undo(self, session: dict[str, Any]) -> None:
        self._confirm(session, "undo", "Undo the last run of this session?")

    def menu_end(self, session: dict[str, Any]) -> None:
        self._confirm(session, "end", "End this session? Its files stay.")

    def menu_pause(self, session: dict[str, Any]) -> None:
        self._send(session, "pause")

    def menu_resume(self, session: dict[str, Any]) -> None:
        self._send(session, "resume")

    def menu_cancel(self, session: dict[str, Any]) -> None:
        self._send(session, "cancel")

    # --- how ---

    def _confirm(self, session: dict[str, Any], kind: str, question: str) -> None:
        def answered(yes: bool | None) -> None:
            if yes:
                self._send(session, kind)

        self.app.push_screen(Confirm(question), answered)

    @work(group="menu")
    async def _send(self, session: dict[str, Any], kind: str) -> None:
        try:
            await self.client.give(session["id"], kind)
        except HutchError as error:
            self.notify(str(error), severity="error", markup=False)

    def _run(self, *words: str) -> None:
        """Run a command on the terminal, below the full screen."""
        with self.app.suspend(), keys_ignored():
            subprocess.run([sys.executable, "-c", START, *words], check=False)
            sys.stdout.write("\nPress Enter to go back to the full screen. ")
            sys.stdout.flush()
            sys.stdin.readline()
        self.refresh(repaint=True)
