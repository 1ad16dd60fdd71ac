"""The setup of a run for tests: a real workspace, jail, log and toolbox, with a scripted model."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hutch.agent.jail_event_conversion import as_event
from hutch.agent.persona import load_persona
from hutch.agent.repository_testing.session_test_runs import SessionTests
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.agent.run_persona_tools_and_rules import equip
from hutch.agent.run_setup import RunSetup
from hutch.agent.session_recorder import Recorder
from hutch.agent.tool_call_permission_decision import Asker
from hutch.agent.tools.builtin import TOOLS, built_in_tools
from hutch.agent.tools.interface import Ask, Context, ToolResult
from hutch.agent.tools.session_tool_registry import ToolRegistry
from hutch.agent.tools.tool_schemas_and_dispatch import Toolbox
from hutch.domain.errors import BadRequest, Denied, HutchError
from hutch.domain.events import Entry, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.redaction import Redactor
from hutch.domain.run_limits import DEFAULT_LIMITS, RunLimits
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.run_and_log_lookup import read_log
from hutch.forge.host_git import Git
from hutch.jail.jail_startup import start_jail
from hutch.jail.policy import AGENT, Policy
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.llm.interface import (
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    Model,
    Request,
    Text,
    Usage,
)
from hutch.llm.retry import RetryingModel, RetryPolicy
from hutch.llm.scripted_model import ScriptedModel
from hutch.llm.scripted_reply_file import parse_cassette
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.store.event_log import open_log
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import Workspace
from tests.new_database import place_database

QUICK = RetryPolicy(attempts=3, first_wait_s=0.01, max_wait_s=1, idle_timeout_s=5)
GIT = Git({"PATH": "/usr/bin:/bin"})
BROKEN = {
    "adding.py": b"def add(a, b):\n    return a - b\n",
    "test_adding.py": (
        b"import unittest\n\nfrom adding import add\n\n\nclass Adding(unittest.TestCase):\n"
        b"    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    ),
}
FIX = {"path": "adding.py", "edits": [{"old": "a - b", "new": "a + b"}]}


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def replies(*each: Mapping[str, Any]) -> str:
    return json.dumps({"replies": list(each)})


@dataclass(slots=True)
class SetupOptions:
    """The options of a setup."""

    files: Mapping[str, bytes]
    cassette: str
    persona: str = "engineer"
    limits: RunLimits = DEFAULT_LIMITS
    secrets: Sequence[str] = ()
    approve: Asker | None = None
    ask: Ask | None = None
    model: Model | None = None
    folder: Path | None = None  # with the user's own personas
    test_command: str | None = None
    tools: ToolRegistry = field(default_factory=built_in_tools)


@asynccontextmanager
async def open_setup(
    home: Path, options: SetupOptions, session_id: SessionId | None = None
) -> AsyncIterator[RunSetup]:
    """A setup on a workspace with these files; with a session's id, on that session's workspace."""
    place = Home(home / "data")
    again = session_id is not None
    if not again:
        await prepare(place, "ws", starter_files(options.files), git=GIT)
    opened = await open_workspace(place, "ws")
    redactor = Redactor(options.secrets)
    place_database(home / "data")
    async with (
        open_log(home / "data/hutch.db", home / "data/blobs", home / "data/signing.pem") as log,
        open_mounted(place, opened, place.workspace("ws"), GIT) as workspace,
    ):
        session_id = session_id or new_session_id()
        if not again:
            await log.append(session_id, [SessionOpened(purpose="test")])
        jail = await start_jail(workspace.place, AGENT)
        recorder = Recorder(log, session_id, redactor)
        shells = Shells(jail, on_event=lambda event: recorder.report(as_event(event)))
        activity = Activity()
        changes = ChangeRecorder(workspace, recorder, activity)
        recorder.take_changes, recorder.on_report = changes.take_events, activity.note
        await changes.start(0, is_new=True)
        try:
            persona = load_persona(
                options.persona,
                known_tools=options.tools.names,
                folder=options.folder,
                read=lambda path: _small(workspace, path),
            )
            yield RunSetup(
                recorder=recorder,
                model=options.model
                or RetryingModel(
                    ScriptedModel("scripted:test", parse_cassette(options.cassette, "test")), QUICK
                ),
                persona=persona,
                toolbox=Toolbox(equip(persona, options.tools).tools, redactor),
                context=Context(
                    workspace,
                    jail,
                    shells,
                    redactor=redactor,
                    ask=options.ask,
                    working=activity.working,
                    suite_options=SuiteOptions(command=options.test_command),
                    tests=SessionTests(recorder, log),
                ),
                limits=options.limits,
                policy=persona.policy,
                approve=options.approve,
            )
        finally:
            await jail.close()
            await shells.close()


@dataclass(slots=True)
class ToolEnv:
    """Tools with a workspace and a jail, without a model or a log."""

    context: Context
    toolbox: Toolbox

    def redact(self, redactor: Redactor) -> None:
        """Use this redactor, in results and in the tools themselves."""
        self.toolbox = Toolbox(TOOLS, redactor)
        self.context = replace(self.context, redactor=redactor)

    async def use(self, tool: str, **arguments: Any) -> ToolResult:
        return await self.send(tool, json.dumps(arguments))

    async def send(self, tool: str, text: str) -> ToolResult:
        arguments = self.toolbox.parse(tool, text)
        if isinstance(arguments, ToolResult):
            return arguments
        return await self.toolbox.use(tool, arguments, self.context)


def starter_files(files: Mapping[str, bytes]) -> dict[str, StarterFile]:
    return {path: StarterFile(content) for path, content in files.items()}


@asynccontextmanager
async def open_tool_env(
    home: Path, files: Mapping[str, bytes], *, policy: Policy = AGENT, **arguments: Any
) -> AsyncIterator[ToolEnv]:
    place = Home(home / "data")
    await prepare(place, "ws", starter_files(files), git=GIT)
    opened = await open_workspace(place, "ws")
    async with open_mounted(place, opened, place.workspace("ws"), GIT) as workspace:
        jail = await start_jail(workspace.place, policy)
        shells = Shells(jail)
        try:
            yield ToolEnv(Context(workspace, jail, shells, **arguments), Toolbox(TOOLS))
        finally:
            await jail.close()
            await shells.close()


@dataclass(frozen=True, slots=True)
class Turn:
    """One reply of a `FunctionModel`."""

    text: str = ""
    calls: tuple[dict[str, Any], ...] = ()
    usage: Usage = field(default_factory=lambda: Usage(input=10, output=5))
    error: HutchError | None = None


@dataclass(slots=True)
class FunctionModel:
    """A model whose replies a function computes; it records the requests."""

    think: Callable[[Request], Turn]
    name: str = "scripted:function"
    context_tokens: int | None = None
    seen: list[Request] = field(default_factory=list)

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        self.seen.append(request)
        turn = self.think(request)
        if turn.error:
            raise turn.error
        yield Text(turn.text)
        for index, requested in enumerate(turn.calls):
            id_ = f"call_{len(self.seen)}_{index}"
            yield CallStarted(id_, requested["tool"])
            yield CallArguments(id_, json.dumps(requested["args"]))
            yield CallEnded(id_)
        yield turn.usage
        yield Finish("calls" if turn.calls else "stop", {"function": {"signature": (len(self.seen), "é")}})

    async def close(self) -> None:
        """Do nothing: no connection is open."""


async def entries(recorder: Recorder) -> list[Entry]:
    return await read_log(recorder.log, recorder.session_id)


def _small(workspace: Workspace, path: str) -> bytes | None:
    try:
        return workspace.files.read_bytes(path)[0]
    except (BadRequest, Denied):
        return None
