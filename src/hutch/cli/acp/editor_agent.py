"""The agent that editors see: it opens, lists, loads and prompts sessions, and switches their options.

Sessions are those of the session client: in this process, in place, or on a server, on copies.
"""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from dataclasses import field
from datetime import UTC, datetime
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import acp
from acp import RequestError, schema
from acp.helpers import update_available_commands
from acp.interfaces import Client

import hutch
from hutch.agent.repository_slash_commands import list_commands
from hutch.cli.acp.event_translation import EventTranslation
from hutch.cli.acp.prompt_blocks import prompt_text
from hutch.cli.acp.prompt_turn import FAILED, EditorSession, PromptTurn, changed_text
from hutch.cli.acp.session_options import SessionOptions
from hutch.cli.session_client import SessionClient
from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.domain.session import NewSession
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line

INVALID_PARAMS = -32602
PAGE = 50
MAX_TITLE_CHARS = 120
MAX_REPLAYED_DIFFS = 100  # their content is read one by one
Args = ParamSpec("Args")
Result = TypeVar("Result")
Method = Callable[Args, Coroutine[Any, Any, Result]]


def reporting(method: Method[Args, Result]) -> Method[Args, Result]:
    """Answer an error of Hutch with its message; the library would hide it as an internal one."""

    @wraps(method)
    async def answer(*args: Args.args, **kwargs: Args.kwargs) -> Result:
        try:
            return await method(*args, **kwargs)
        except HutchError as error:
            code = INVALID_PARAMS if isinstance(error, BadRequest | NotFound) else FAILED
            raise RequestError(code, str(error)) from None

    return answer


@dataclass(slots=True)
class EditorAgent:
    """The library's `Agent`."""

    sessions: SessionClient
    options: SessionOptions
    new_session_in: Callable[[Path], NewSession]  # checks the directory; blocks the thread
    editor: Client | None = None
    opened: dict[str, EditorSession] = field(default_factory=dict)
    shows_terminals: bool = False  # the editor shows the output of commands in terminals
    announcing: set["asyncio.Task[None]"] = field(default_factory=set)

    def on_connect(self, conn: Client) -> None:
        self.editor = conn

    async def initialize(self, protocol_version: int, **more: Any) -> schema.InitializeResponse:
        self.shows_terminals = _has_terminals(more.get("client_capabilities"))
        offered = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(), close=schema.SessionCloseCapabilities()
        )
        return schema.InitializeResponse(
            protocol_version=acp.PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True,
                prompt_capabilities=schema.PromptCapabilities(
                    image=False, audio=False, embedded_context=True
                ),
                session_capabilities=offered,
            ),
            agent_info=schema.Implementation(name="hutch", title="Hutch", version=hutch.__version__),
            auth_methods=[],
        )

    async def authenticate(self, method_id: str, **more: Any) -> schema.AuthenticateResponse:
        return schema.AuthenticateResponse()

    @reporting
    async def new_session(self, cwd: str, **more: Any) -> schema.NewSessionResponse:
        new = await self.options.make(self.new_session_in, _directory(cwd))
        session = await self.sessions.create(new)
        self._opened(session, cwd)
        modes, models = await self.options.of(session)
        announcing = asyncio.ensure_future(
            self._announce_commands(self.opened[session["id"]])
        )  # after the response
        self.announcing.add(announcing)
        announcing.add_done_callback(self.announcing.discard)
        return schema.NewSessionResponse(session_id=session["id"], modes=modes, config_options=models)

    @reporting
    async def load_session(self, cwd: str, session_id: str, **more: Any) -> schema.LoadSessionResponse:
        session = await self._find(session_id, cwd)
        known = self.opened.get(session_id)
        if known is not None and known.turn is not None:
            raise BadRequest(f"A prompt of the session {session_id} is running.")
        opened = self._opened(session, cwd)
        await self._replay(opened, int((session.get("head") or {}).get("seq") or 0))
        await self._announce_commands(opened)
        modes, models = await self.options.of(session)
        return schema.LoadSessionResponse(modes=modes, config_options=models)

    @reporting
    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **more: Any
    ) -> schema.ListSessionsResponse:
        found = await self.sessions.page(before=cursor or "", limit=PAGE)
        place = str(_directory(cwd)) if cwd else None
        listed = [
            schema.SessionInfo(
                session_id=each["id"],
                cwd=each["repository"],
                title=one_line(each["purpose"] or each.get("last_prompt", ""), MAX_TITLE_CHARS) or None,
                updated_at=datetime.fromtimestamp(each["updated_ms"] / 1000, UTC).isoformat(),
            )
            for each in found
            if each["repository"].startswith("/") and place in (None, each["repository"])
            if not each.get("parent")  # a helper belongs to the plan of its parent
        ]
        last = found[-1]["id"] if len(found) == PAGE else None
        return schema.ListSessionsResponse(sessions=listed, next_cursor=last)

    @reporting
    async def prompt(self, session_id: str, prompt: list[Any], **more: Any) -> schema.PromptResponse:
        session = self._session(session_id)
        if session.turn is not None:
            raise BadRequest("A prompt of this session is running. Cancel it, or wait for its end.")
        assert self.editor is not None
        turn = session.turn = PromptTurn(self.sessions, self.editor, session)
        try:
            return await turn.run(prompt_text(prompt, session.directory))
        finally:
            session.turn = None

    async def cancel(self, session_id: str, **more: Any) -> None:
        session = self.opened.get(session_id)
        if session is not None and session.turn is not None:
            await session.turn.cancel()

    @reporting
    async def set_session_mode(
        self, session_id: str, mode_id: str, **more: Any
    ) -> schema.SetSessionModeResponse:
        await self.sessions.change(self._session(session_id).id, {"persona": mode_id})
        return schema.SetSessionModeResponse()

    @reporting
    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **more: Any
    ) -> schema.SetSessionConfigOptionResponse:
        session = self._session(session_id)
        if config_id != "model":
            raise NotFound(f"There is no option {one_line(config_id, 80)!r}. There is: model.")
        changed = await self.sessions.change(session.id, {"model": str(value)})
        session.names_model = True
        _, models = await self.options.of(changed)
        return schema.SetSessionConfigOptionResponse(config_options=models)

    @reporting
    async def close_session(self, session_id: str, **more: Any) -> schema.CloseSessionResponse:
        """Stop the prompt of a session, and forget it; it can be loaded again."""
        await self.cancel(session_id)
        self.opened.pop(session_id, None)
        return schema.CloseSessionResponse()

    # --- internals ---

    def _opened(self, session: dict[str, Any], cwd: str) -> EditorSession:
        opened = EditorSession(
            session["id"],
            str(_directory(cwd)),
            bool(session["deliver"]),
            bool(session["model"]),
            shows_terminals=self.shows_terminals,
        )
        self.opened[opened.id] = opened
        return opened

    def _session(self, session_id: str) -> EditorSession:
        session = self.opened.get(session_id)
        if session is None:
            raise NotFound(f"No session {one_line(session_id, 80)!r} is open. Load it first.")
        return session

    async def _announce_commands(self, session: EditorSession) -> None:
        """Offer the commands of the repository in the editor's menu."""
        assert self.editor is not None
        names = await asyncio.to_thread(list_commands, Path(session.directory))
        hint = schema.AvailableCommandInput(schema.UnstructuredCommandInput(hint="arguments"))
        offered = [
            schema.AvailableCommand(name=name, description="A command of this repository", input=hint)
            for name in names
        ]
        if offered:
            await self.editor.session_update(session.id, update_available_commands(offered))

    async def _find(self, session_id: str, cwd: str) -> dict[str, Any]:
        """A session of this directory: what it shows must not appear in the window of another project."""
        session = await self.sessions.get(session_id)
        if session["repository"] != str(_directory(cwd)):
            raise NotFound(f"The session {one_line(session_id, 80)} works in {session['repository']!r}.")
        return session

    async def _replay(self, session: EditorSession, head: int) -> None:
        """Show everything that has happened so far."""
        assert self.editor is not None
        shown, diffs = EventTranslation(session.directory, replays=True, plan=session.plan), 0
        shown.shows_terminals = session.shows_terminals
        async with aclosing(self.sessions.follow(session.id)) as updates:
            async for update in updates:
                if update.entry is None:
                    continue
                session.after, changed = update.entry["seq"], None
                if update.entry["event"]["type"] == "file.changed" and diffs < MAX_REPLAYED_DIFFS:
                    diffs += 1
                    changed = await changed_text(self.sessions, session, update.entry, shown)
                for each in shown.event(update.entry["event"], changed):
                    await self.editor.session_update(session.id, each)
                if session.after >= head:
                    return


def _has_terminals(capabilities: Any) -> bool:
    """True if the editor shows output that an agent sends as that of a terminal (an extension of Zed's)."""
    meta = getattr(capabilities, "field_meta", None) or {}
    return meta.get("terminal_output") is True


def _directory(cwd: str) -> Path:
    path = Path(cwd)
    if not path.is_absolute():
        raise BadRequest(f"The directory {one_line(cwd, 200)!r} is not an absolute path.")
    return path.resolve()
