"""The time from a prompt to the first part of its reply: over ACP, and with a session used directly."""

import asyncio
import os
import statistics
import time
from collections.abc import Iterator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import Any

from acp import spawn_agent_process, text_block
from bench.provider_and_installation import HUTCH, Office, a_place
from bench.result_row import Row

from hutch import settings
from hutch.app import configure_logs
from hutch.app.allowed_local_repositories import check_directory
from hutch.app.vault_secrets_and_redactor import redactor
from hutch.app.workspaces import workspaces_of
from hutch.cli.local_session_client import LocalSessions
from hutch.domain.session import Delivery, NewSession
from hutch.flows.in_place_workspaces import InPlaceDirectories

RUNS, WARM_UP = 25, 3
MAX_ADDED_MS = 10
REPLY = {"text": "A reply of a few words.", "times": 10_000}


class Editor:
    """An editor that notes when the first part of a reply arrives."""

    def __init__(self) -> None:
        self.first_at = 0.0

    async def session_update(self, session_id: str, update: Any, **more: Any) -> None:
        if update.session_update == "agent_message_chunk" and not self.first_at:
            self.first_at = time.perf_counter()

    def on_connect(self, conn: Any) -> None:
        """Nothing to do."""


async def over_acp(agent: Any, session_id: str, editor: Editor) -> float:
    editor.first_at, began = 0.0, time.perf_counter()
    await agent.prompt(session_id=session_id, prompt=[text_block("Say it")])
    return (editor.first_at - began) * 1000


class Direct:
    """A session that is used without a protocol."""

    def __init__(self, sessions: LocalSessions, session_id: str) -> None:
        self.sessions, self.id, self.after = sessions, session_id, 0

    async def prompt(self) -> float:
        began, first_at = time.perf_counter(), 0.0
        await self.sessions.give(self.id, "prompt", text="Say it")
        async with aclosing(self.sessions.follow(self.id, after=self.after)) as updates:
            async for update in updates:
                is_text = update.delta is not None and update.delta["kind"] == "text"
                if update.entry is not None:
                    self.after, kind = update.entry["seq"], update.entry["event"]["type"]
                    is_text = kind == "model.replied"
                    if kind == "run.ended":
                        break
                first_at = first_at or (time.perf_counter() if is_text else 0.0)
        return (first_at - began) * 1000


async def both(office: Office, model: str, homes: Path) -> list[tuple[float, float]]:
    """Prompts in turn, so that the load of the machine is the same for both."""
    editor: Any = Editor()  # the protocol of the library has more methods
    home = {"HOME": str(office.place), "HUTCH_HOME": str(homes / "acp")}
    loaded = settings.load(environ={**os.environ, "HUTCH_HOME": str(homes / "direct")})
    configure_logs(loaded, quiet=True)
    check = partial(check_directory, loaded, plain=True, unsafe=False)
    directories = InPlaceDirectories(workspaces_of(loaded), check, redactor(loaded).redact)
    new = NewSession(repository=str(office.work), model=model, delivery=Delivery(in_place=True))
    starting = spawn_agent_process(
        editor,
        *(HUTCH, "acp", "--model", model, "--plain-directory"),
        env={"PATH": os.environ["PATH"], **home},
        cwd=office.work,
    )
    async with starting as (agent, _), LocalSessions.opened(loaded, in_place=directories) as sessions:
        await agent.initialize(protocol_version=1)
        opened = await agent.new_session(cwd=str(office.work), mcp_servers=[])
        direct = Direct(sessions, (await sessions.create(new))["id"])
        times = [
            (await over_acp(agent, opened.session_id, editor), await direct.prompt())
            for _ in range(RUNS + WARM_UP)
        ]
    return times[WARM_UP:]


def measure() -> Iterator[Row]:
    with a_place() as place:
        office = Office(place, files=50)
        times = asyncio.run(both(office, office.cassette(REPLY), place))
    acp, direct = (statistics.median(each) for each in zip(*times, strict=True))
    added = statistics.median(one - other for one, other in times)
    yield Row("ACP prompt to first chunk, added to a session used directly", added, None, "ms", MAX_ADDED_MS)
    yield Row("ACP prompt to first chunk", acp, direct, "ms", 1.5, "the session client in process")
