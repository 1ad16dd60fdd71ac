"""The list of sessions in the full-screen app, with a preview of the selected one."""

from typing import Any, ClassVar

import httpx2
from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.timer import Timer
from textual.widgets import DataTable, Footer, Input, Static

from hutch.cli.api_client import Client
from hutch.cli.attached_conversation import Conversation
from hutch.cli.new_session_request_body import repository_address
from hutch.cli.render.session_rows import COLOURS, as_tree, row
from hutch.cli.render.transcript import Line
from hutch.cli.screens.dialogs import Confirm, Help, NewSession, PatchScreen
from hutch.cli.screens.session_menu import MenuScreen
from hutch.cli.screens.session_screen import SessionScreen
from hutch.cli.screens.transcript_panel import TranscriptView
from hutch.cli.server_requests import short
from hutch.cli.session_client import ServedSessions
from hutch.domain.errors import HutchError, Unavailable
from hutch.system.terminal_safe_text import one_line

POLL_INTERVAL_S = 1.0
PREVIEW_DELAY_S = 0.15  # so that sessions the cursor only passes are not loaded
MAX_COUNT = 200
WIDE_COLUMNS = 120  # the width from which list and preview are side by side
COLUMNS = ("ID", "State", "Age", "Owner", "Purpose")


class SessionTable(DataTable[Text]):
    """The table; Enter attaches to the selected session."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "select_cursor", "attach")]


class ListScreen(MenuScreen):
    CSS = """
    #title { height: 1; background: $primary; color: $text; padding: 0 1; text-style: bold; }
    #title.away { background: $error; }
    #search { display: none; }
    #search.on { display: block; }
    #body { layout: vertical; }
    #body.wide { layout: horizontal; }
    #list { height: 45%; background: $background; scrollbar-size-vertical: 1; }
    #body.wide #list { width: 50%; height: 100%; }
    #preview { height: 1fr; border-top: solid $primary; padding: 0 1; }
    #body.wide #preview { height: 100%; border-top: none; border-left: solid $primary; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "menu", "menu"),
        Binding("n", "new", "new"),
        Binding("p", "give('pause')", "pause"),
        Binding("r", "give('resume')", "resume"),
        Binding("c", "give('cancel')", "cancel", show=False),
        Binding("x", "end", "end"),
        Binding("d", "diff", "diff"),
        Binding("slash", "search", "search"),
        Binding("t", "app.theme_switched", "theme", show=False),
        Binding("question_mark", "help", "help"),
        Binding("q", "app.quit", "quit"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
        Binding("escape", "no_search", show=False),
    ]

    def __init__(self, client: Client) -> None:
        super().__init__()
        self.client = client
        self.sessions: list[dict[str, Any]] = []
        self._depths: dict[str, int] = {}  # of helpers below their parents
        self._query = ""
        self._preview_timer: Timer | None = None
        self._previewed = ""
        self._created = ""  # the cursor moves to this session once it is in the list
        # Not found by queries: answers of the server may still come while the screen is being closed.
        self._title = Static("Hutch", id="title", markup=False)
        self._table = SessionTable(id="list", cursor_type="row")
        self._view = TranscriptView(id="preview")

    def compose(self) -> ComposeResult:
        yield self._title
        yield Input(placeholder="search purpose, prompts and repository", id="search", compact=True)
        with Container(id="body"):
            yield self._table
            yield self._view
        yield Footer(compact=True)

    def on_mount(self) -> None:
        for name in COLUMNS:
            self._table.add_column(name, key=name)
        self._table.focus()
        self._poll()
        self.set_interval(POLL_INTERVAL_S, self._poll)

    def on_resize(self, event: Resize) -> None:
        self.query_one("#body").set_class(event.size.width >= WIDE_COLUMNS, "wide")

    # --- the list ---

    @work(exclusive=True, group="poll")
    async def _poll(self) -> None:
        title = self._title
        try:
            query = {"limit": MAX_COUNT, "q": self._query}
            answer = await self.client.request("GET", "/sessions", params=query, again=False)
        except (HutchError, httpx2.HTTPError) as error:
            title.update(
                "Disconnected; waiting for the server" if isinstance(error, Unavailable) else str(error)
            )
            title.add_class("away")
            try:
                await self.client.refresh_address()
            except Unavailable:
                return
            return
        title.remove_class("away")
        tree = as_tree(answer.json()["items"])
        self._depths = {each["id"]: depth for each, depth in tree}
        self._fill([dict(each) for each, _ in tree])
        busy = sum(each["state"] == "running" for each in self.sessions)
        waiting = sum(each["state"] == "waiting" for each in self.sessions)
        found = f"  /{self._query}" if self._query else ""
        also = f", {waiting} waiting for you" if waiting else ""
        title.update(
            f"Hutch at {self.client.address.url}  {len(self.sessions)} sessions, {busy} running{also}{found}"
        )

    def _fill(self, sessions: list[dict[str, Any]]) -> None:
        """Update the table; the cursor stays on its session."""
        table = self._table
        chosen = self._created or (self.chosen or {}).get("id")
        same = [each["id"] for each in sessions] == [each["id"] for each in self.sessions]
        old, self.sessions = self.sessions, sessions
        if same and table.row_count:
            for before, each in zip(old, sessions, strict=True):
                was, now = self._cells(before), self._cells(each)
                for name, text, other in zip(COLUMNS, now, was, strict=True):
                    if text != other or name == "Age":
                        table.update_cell(each["id"], name, text)
            return
        table.clear()
        for each in sessions:
            table.add_row(*self._cells(each), key=each["id"])
        ids = [each["id"] for each in sessions]
        if chosen in ids:
            table.move_cursor(row=ids.index(chosen), animate=False)
            self._created = ""
        if not sessions:
            self._previewed = ""
            self._view.clear()
            self._view.put(
                [
                    Line(
                        "No session matches."
                        if self._query
                        else "There are no sessions yet. Press n to create one.",
                        "dim",
                    )
                ]
            )

    def _cells(self, session: dict[str, Any]) -> list[Text]:
        cells = [Text(cell) for cell in row(session, self._depths.get(session["id"], 0))]
        state = session["state"]
        colour = COLOURS.get(state) or ("dim" if state == "ended" else "")
        cells[1].stylize(f"bold {colour}" if state == "waiting" else colour)
        return cells

    @property
    def chosen(self) -> dict[str, Any] | None:
        at = self._table.cursor_row
        return self.sessions[at] if 0 <= at < len(self.sessions) else None

    # --- the preview ---

    def on_data_table_row_highlighted(self) -> None:
        if self._preview_timer:
            self._preview_timer.stop()
        self._preview_timer = self.set_timer(PREVIEW_DELAY_S, self._preview_chosen)

    def _preview_chosen(self) -> None:
        chosen = self.chosen
        if chosen and chosen["id"] != self._previewed:
            self._previewed = chosen["id"]
            self._preview(chosen)

    @work(exclusive=True, group="preview")
    async def _preview(self, session: dict[str, Any]) -> None:
        self._view.clear()
        try:
            await Conversation(ServedSessions(self.client), session).watch(self._view.put)
        except HutchError as error:
            self._view.put([Line(str(error), "bad")])

    # --- actions ---

    def menu_session(self) -> dict[str, Any] | None:
        return self.chosen

    def menu_attach(self, session: dict[str, Any]) -> None:
        self._open(session["id"])

    def menu_new(self, session: dict[str, Any] | None) -> None:
        self.action_new()

    def on_data_table_row_selected(self) -> None:
        if self.chosen:
            self._open(self.chosen["id"])

    @work(group="open", exclusive=True)
    async def _open(self, session_id: str) -> None:
        try:
            session = await self.client.get(f"/sessions/{session_id}")
        except HutchError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        self.app.push_screen(SessionScreen(self.client, session))

    def action_new(self) -> None:
        def answered(created: str | None) -> None:
            if created:
                self._created = created
                self._open(created)

        self.app.push_screen(NewSession(self._create, local=self.client.address.is_local), answered)

    async def _create(self, fields: dict[str, str]) -> str:
        fields["repository"] = repository_address(fields["repository"], self.client.address.is_local)
        return str((await self.client.post("/sessions", fields))["id"])

    def action_give(self, kind: str) -> None:
        if self.chosen:
            self._give(self.chosen, kind)

    def action_end(self) -> None:
        chosen = self.chosen
        if chosen is None:
            return

        def answered(yes: bool | None) -> None:
            if yes and chosen:
                self._give(chosen, "end")

        name = f"{short(chosen['id'])}, {one_line(chosen['purpose'], 60)}"
        self.app.push_screen(Confirm(f"End the session {name}? Its files stay."), answered)

    @work(group="give")
    async def _give(self, session: dict[str, Any], kind: str) -> None:
        try:
            await self.client.give(session["id"], kind)
        except HutchError as error:
            self.notify(str(error), severity="error", markup=False)
        self._poll()

    def action_diff(self) -> None:
        if self.chosen:
            self.app.push_screen(PatchScreen(self.client, self.chosen))

    def action_help(self) -> None:
        self.app.push_screen(Help())

    def action_search(self) -> None:
        search = self.query_one("#search", Input)
        search.add_class("on")
        search.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        self._query = event.value.strip()
        self._poll()

    def on_input_submitted(self) -> None:
        self._table.focus()

    def action_no_search(self) -> None:
        search = self.query_one("#search", Input)
        search.value = ""
        search.remove_class("on")
        self._table.focus()
