"""The cost of watching a session's files, and the delay from a save to a follower.

The alternative is the same work in the same jail without a watcher. Both take turns.
Saves go through the session host, in an interpreter with the server's settings.
"""

import asyncio
import resource
import shutil
import statistics
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from bench.provider_and_installation import a_place
from bench.result_row import Row, percentile
from bench.server_interpreter import configured_as_server

from hutch.agent.run_setup import RunSetup
from hutch.domain.current_actor_and_author import Actor, acting
from hutch.domain.events import FileChanged
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.jail.shell.shell import Shell
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.author_work_periods import Activity
from hutch.sessions.file_change_recorder import ChangeRecorder
from hutch.sessions.snapshot_schedule import SnapshotSchedule
from tests.agent.run_setups import SetupOptions, open_setup
from tests.sessions.session_server import owner, repository, serving, state

FILES = {f"d{number % 20}/f{number}.py": b"x = 1\n" * 50 for number in range(1000)}
BURST = 20_000
# New files on a disk cost what other programs have put into its journal, up to twenty times as much. In
# memory a file costs least, so the share of watching is highest there.
IN_MEMORY = Path("/dev/shm")
ROUNDS = 25
COMMANDS = 100
SAVES = 300
MAKE = f"""\
import os
for number in range({BURST}):
    os.close(os.open(f"burst/{{number}}", os.O_CREAT | os.O_WRONLY))
"""
USER = Actor("usr_bench", "request")


@asynccontextmanager
async def watched(setup: RunSetup) -> AsyncIterator[Activity]:
    """Watch as an open session does."""
    recorder, workspace, activity = setup.recorder, setup.context.workspace, Activity()
    changes = ChangeRecorder(workspace, recorder, activity)
    await changes.start(0, is_new=True)
    watch = SnapshotSchedule(workspace, recorder, activity, lambda: False)
    recorder.take_changes = changes.take_events

    def note(event: object) -> None:
        activity.note(event)  # type: ignore[arg-type]
        watch.note(event)  # type: ignore[arg-type]

    recorder.on_report = note
    watch.start()
    await asyncio.sleep(0.5)  # until all directories are watched
    try:
        yield activity
    finally:
        recorder.on_report = recorder.take_changes = None
        await watch.close()
        changes.close()


@asynccontextmanager
async def unwatched(setup: RunSetup) -> AsyncIterator[Activity]:
    setup.context.workspace.observer = setup.context.workspace.snapshots.on_taken = None
    yield Activity()


async def timed(shell: Shell, command: str) -> float:
    """Milliseconds until a user's command is answered."""
    began = time.perf_counter()
    with acting(USER):
        result = await shell.run(command)
    assert result.exit_code == 0, result
    return (time.perf_counter() - began) * 1e3


async def burst(place: Path, activity: Activity) -> float:
    """Milliseconds of CPU time that a burst of new files takes, here and in the process that makes them."""
    (place / "burst").mkdir()
    began, before = time.process_time(), resource.getrusage(resource.RUSAGE_CHILDREN)
    with activity.working(Actor("usr_bench", "command", "main")):
        process = await asyncio.create_subprocess_exec(sys.executable, "-S", "-c", MAKE, cwd=place)
        assert await process.wait() == 0
    used, after = time.process_time() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return (used + after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime) * 1e3


async def bursts() -> tuple[float, float]:
    """Milliseconds of CPU time of a burst: watched, and not."""
    took: dict[bool, list[float]] = {True: [], False: []}
    with a_place(IN_MEMORY) as place:
        async with open_setup(place, SetupOptions(FILES, '{"replies": []}')) as setup:
            [tree] = place.glob("**/ws/tree")
            for round_ in range(2 * ROUNDS):
                is_watched = round_ % 2 == 0
                async with watched(setup) if is_watched else unwatched(setup) as activity:
                    took[is_watched].append(await burst(tree, activity))
                shutil.rmtree(tree / "burst")
                await setup.context.workspace.snapshot("after a burst")
    return statistics.median(took[True]), statistics.median(took[False])


async def commands() -> tuple[float, float]:
    """Milliseconds of a command that changes a file: watched, and not."""
    took: dict[bool, list[float]] = {True: [], False: []}
    with a_place() as place:
        async with open_setup(place, SetupOptions(FILES, '{"replies": []}')) as setup:
            shell = setup.context.shells.shell("main")
            await timed(shell, "true")
            for round_ in range(2 * ROUNDS):
                is_watched = round_ % 2 == 0
                async with watched(setup) if is_watched else unwatched(setup):
                    for number in range(COMMANDS // ROUNDS):
                        took[is_watched].append(await timed(shell, f"echo {round_} {number} > d1/f1.py"))
                        await asyncio.sleep(0.02)  # a person does not type faster
    return statistics.median(took[True]), statistics.median(took[False])


async def saves(place: Path) -> list[float]:
    """Milliseconds from a request that saves a file to its event at a follower."""
    async with serving(place / "home") as server:
        who = await owner(server)
        repo = repository(place / "repo", {f"f{number}.py": "x = 1\n" * 50 for number in range(1000)})
        session = await sessions.create(
            server.services, who, NewSession(purpose="saves", repository=str(repo))
        )
        await state(server, who, session.id, "idle")
        sent: dict[str, float] = {}
        seen: list[float] = []

        async def follow() -> None:
            async with aclosing(server.log.follow(session.id)) as entries:
                async for entry in entries:
                    if isinstance(entry.event, FileChanged) and entry.event.path in sent:
                        seen.append((time.perf_counter() - sent.pop(entry.event.path)) * 1e3)
                    if len(seen) == SAVES:
                        return

        following = asyncio.ensure_future(follow())
        for number in range(SAVES):
            path = f"f{number}.py"
            sent[path] = time.perf_counter()
            await server.host.call(session.id, requests.WriteFile(path, b"y = 2\n"), by=who.user.id)
            await asyncio.sleep(0.05)
        await following
    return seen


def measure() -> Iterator[Row]:
    ours, theirs = asyncio.run(bursts())
    yield Row(f"CPU time of {BURST:,} new files, watched", ours, theirs, "ms", 1.03, "not watched")
    ours, theirs = asyncio.run(commands())
    yield Row("added to the answer of a command by watching", max(0.0, ours - theirs), None, "ms", 5.0)
    with configured_as_server(), a_place() as place:
        yield Row("save to follower, p99", percentile(asyncio.run(saves(place)), 99), None, "ms", 50.0)
