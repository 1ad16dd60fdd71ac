"""A changed persona: from the request to the first turn with it, in the same jail.

The alternative is the same turn of the same run without a change. Both take turns.
"""

import asyncio
import statistics
import time
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

from bench.provider_and_installation import a_place
from bench.result_row import Row

from hutch.domain.events import (
    CommandStarted,
    ModelReplied,
    RunChanged,
    RunEnded,
    SessionChanged,
    ToolReturned,
)
from hutch.domain.session import NewSession
from hutch.flows import session_option_changes, sessions
from hutch.flows.session_option_changes import SessionChange
from hutch.sessions.live_session_host import LocalHost
from tests.sessions.session_server import call, cassette, owner, repository, serving

TURNS = 24  # of the run; every second one has another persona
PERSONAS = ("copilot", "engineer")


def measure() -> Iterator[Row]:
    with a_place() as place:
        late, jails, changed_s, same_s = asyncio.run(_measure(place))
    yield Row("turns that began with the old persona after a change", late, None, "", 0)
    yield Row("jails of a run with 12 changes of its persona", jails, None, "", 1)
    ours, theirs = statistics.median(changed_s) * 1000, statistics.median(same_s) * 1000
    yield Row("turn with another persona", ours, theirs, "ms", 3, "turn without a change")


async def _measure(place: Path) -> tuple[int, int, list[float], list[float]]:
    replies = [{"text": "I look.", **call("bash", command=f"sleep 0.2 #{turn}")} for turn in range(TURNS)]
    model = cassette(place / "model.json", [*replies, {"text": "Done."}])
    async with serving(place / "home", model=model) as server:
        who, services = await owner(server), server.services
        new = NewSession(prompt="Go.", repository=str(repository(place / "repository")))
        session = await sessions.create(services, who, new)
        wardens: set[int] = set()
        taken: dict[bool, list[float]] = {True: [], False: []}
        late, turn, returned_at, asked_for, due, now = 0, 0, 0.0, "", "", ""
        async with aclosing(server.log.follow(session.id)) as entries:
            async for entry in entries:
                match event := entry.event:
                    case CommandStarted():
                        turn += 1
                        assert isinstance(services.host, LocalHost)
                        async with services.host.sandbox(session.id) as sandbox:
                            wardens.add(sandbox.jail.warden_pid)
                        if turn % 2:
                            asked = SessionChange(persona=PERSONAS[turn // 2 % 2])
                            await session_option_changes.change(services, who, session.id, asked)
                    case SessionChanged():
                        asked_for = str(event.changes[0].after)
                    case ToolReturned():
                        returned_at, due = time.perf_counter(), asked_for
                    case RunChanged():
                        now = event.persona
                    case ModelReplied() if turn:
                        taken[bool(turn % 2)].append(time.perf_counter() - returned_at)
                        late += now != due
                    case RunEnded():
                        break
    return late, len(wardens), taken[True], taken[False]
