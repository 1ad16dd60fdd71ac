"""`hutch` without arguments on a terminal: the full-screen app."""

import asyncio
import json
import sys
from typing import ClassVar

from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from hutch.cli import exit_codes, top_level_help
from hutch.cli.api_client import Client
from hutch.cli.closed_terminal_watchdog import exit_when_terminal_closes
from hutch.cli.screens.dialogs import BOX
from hutch.cli.screens.session_list import ListScreen
from hutch.cli.server_address_and_token import NO_SERVER
from hutch.domain.errors import Unavailable
from hutch.settings import Paths, find_paths, terminal_type
from hutch.system.atomic_file import write_private

THEMES = {"dark": "textual-dark", "light": "textual-light"}
UP = "import sys; from hutch.cli.main import run; sys.exit(run(['up', '--detach', '--json']))"


class StartServer(ModalScreen[bool]):
    """Offers to start a server when none is running."""

    CSS = BOX.format(name="StartServer")
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("s,enter", "start", "start"),
        Binding("q,escape,ctrl+c", "dismiss(False)", "quit", priority=True),
    ]

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(NO_SERVER.replace("`", ""), id="message", markup=False)
            yield Static("s  start one in the background      q  quit", classes="hint", markup=False)

    @work(exclusive=True)
    async def action_start(self) -> None:
        message = self.query_one("#message", Static)
        message.update("Starting …")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", UP),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
        if process.returncode == exit_codes.OK:
            self.dismiss(True)
        else:
            message.update(errors.decode(errors="replace").strip()[-1500:] or "The server did not start.")


class SessionsApp(App[None]):
    TITLE = "Hutch"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+q", "quit", show=False, priority=True)]

    def __init__(self, paths: Paths | None = None) -> None:
        super().__init__()
        self._file = (paths or find_paths()).state / "screen.json"
        self._client: Client | None = None

    def on_mount(self) -> None:
        self.theme = THEMES.get(self._saved_theme(), THEMES["dark"])
        self._begin()

    async def on_unmount(self) -> None:
        if self._client:
            await self._client.__aexit__(None, None, None)

    def action_theme_switched(self) -> None:
        """Switch between dark and light, and remember the choice."""
        name = "light" if self.current_theme.dark else "dark"
        self.theme = THEMES[name]
        write_private(self._file, json.dumps({"theme": name}) + "\n")

    def _begin(self) -> None:
        try:
            self._client = Client()
        except Unavailable:
            self.push_screen(StartServer(), self._answered)
            return
        self.push_screen(ListScreen(self._client))

    def _answered(self, started: bool | None) -> None:
        if started:
            self._begin()
        else:
            self.exit()

    def _saved_theme(self) -> str:
        try:
            return str(json.loads(self._file.read_bytes())["theme"])
        except (OSError, ValueError, KeyError, TypeError):
            return "dark"


def screen_command() -> int:
    """Run the full-screen app; print the help on a terminal that cannot show it."""
    if terminal_type() in ("", "dumb"):
        sys.stdout.write(top_level_help.help_text())
        return exit_codes.OK
    app = SessionsApp()
    with exit_when_terminal_closes():
        app.run()
    return app.return_code or exit_codes.OK
