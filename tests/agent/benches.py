"""A bench for tests: a real workspace, jail, log and toolbox, with a scripted model."""

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hutch.agent.approval import Approvals, Asker
from hutch.agent.limits import RunLimits
from hutch.agent.persona import load_persona
from hutch.agent.tools.all import NAMES, TOOLS
from hutch.agent.tools.seam import Ask, Context
from hutch.agent.tools.toolbox import Toolbox
from hutch.app.jails import as_event
from hutch.domain.events import Entry, Event, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.redaction import Redactor
from hutch.flows.code_change import Bench
from hutch.forge.git import Git
from hutch.jail.jail import start_jail
from hutch.jail.policy import AGENT
from hutch.jail.shells import Shells
from hutch.llm.cassette import parse_cassette
from hutch.llm.retry import Patience, PatientModel
from hutch.llm.scripted import ScriptedModel
from hutch.store.log import open_log
from hutch.store.seam import EventLog
from hutch.workspace.overlay import open_place
from hutch.workspace.prepare import prepare
from hutch.workspace.record import Home
from hutch.workspace.workspace import use

QUICK = Patience(attempts=3, first_wait_s=0.01, longest_wait_s=1, silence_s=5)
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
class Wishes:
    """What a test may want otherwise."""

    files: Mapping[str, bytes]
    cassette: str
    persona: str = "engineer"
    limits: RunLimits = field(default_factory=RunLimits)
    secrets: Sequence[str] = ()
    approve: Asker | None = None
    ask: Ask | None = None


@asynccontextmanager
async def open_bench(home: Path, wishes: Wishes, session_id: SessionId | None = None) -> AsyncIterator[Bench]:
    """A bench on a workspace of these files; with a session's id, on the one that it had."""
    place = Home(home / "data")
    again = session_id is not None
    if not again:
        await prepare(place, "ws", dict(wishes.files), git=GIT)
    opened = await open_place(place, "ws")
    redactor = Redactor(wishes.secrets)
    async with (
        open_log(home / "data/hutch.db", home / "data/blobs", home / "data/signing.pem") as log,
        use(place, opened, place.workspace("ws"), GIT) as workspace,
    ):
        session_id = session_id or new_session_id()
        if not again:
            await log.append(session_id, [SessionOpened(purpose="test")])
        jail = await start_jail(workspace.place, AGENT)
        told: list[Event] = []
        shells = Shells(jail, on_event=lambda event: told.append(as_event(event)))
        try:
            persona = load_persona(wishes.persona, known_tools=NAMES)
            yield Bench(
                session_id=session_id,
                log=log,
                model=PatientModel(
                    ScriptedModel("scripted:test", parse_cassette(wishes.cassette, "test")), QUICK
                ),
                persona=persona,
                toolbox=Toolbox(TOOLS, clean=redactor.clean).only(persona.tools),
                context=Context(workspace, jail, shells, ask=wishes.ask),
                redactor=redactor,
                limits=wishes.limits,
                approvals=Approvals(persona.policy, ask=wishes.approve),
                told=told,
            )
        finally:
            await jail.close()
            await shells.close()


async def entries(log: EventLog, session_id: SessionId) -> list[Entry]:
    found: list[Entry] = []
    while page := await log.read(session_id, after=found[-1].seq if found else 0):
        found += page
    return found
