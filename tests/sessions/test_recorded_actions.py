"""Every acknowledged action is in the log; unrecordable ones are refused or named there."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from hutch.domain import inputs
from hutch.domain.errors import DoneUnrecorded, HutchError, LimitReached, NotFound, Unavailable
from hutch.domain.events import (
    CommandEnded,
    CommandStarted,
    Event,
    EventsOmitted,
    FileChanged,
    ShellPrinted,
    ToolReturned,
)
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.flows import session_fork, sessions
from hutch.gateway.gateway_context import Server
from hutch.sessions import file_and_command_requests as requests
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, serving, state, until
from tests.workspace.full_disk import files_no_longer_than

pytestmark = pytest.mark.anyio


async def _session(server: Server) -> SessionId:
    who = await owner(server)
    session = await sessions.create(server.services, who, NewSession(purpose="commands"))
    await state(server, who, session.id, "idle")
    return session.id


async def _events(server: Server, session_id: SessionId) -> list[Event]:
    found: list[Event] = []
    last = 0
    while page := await server.log.read(session_id, after=last):
        found += [entry.event for entry in page if isinstance(entry.event, Event)]
        last = page[-1].seq
    return found


def _wal(place: Path) -> int:
    """The size of the write-ahead file: with no room to grow, nothing can be committed."""
    return (place / "home" / "data" / "hutch.db-wal").stat().st_size


async def _killed(home: Path) -> tuple[SessionId, list[str]]:
    """The responses of a server until it was killed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.sessions.server_killed_during_commands",
        str(home),
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    session_id = SessionId((await process.stdout.readline()).decode().strip())
    answered: list[str] = []
    while min(sum(line.startswith(kind) for line in answered) for kind in ("word-1", "word-2", "file")) < 3:
        answered.append((await process.stdout.readline()).decode().strip())
    os.kill(process.pid, signal.SIGKILL)
    rest = await process.stdout.read()
    await process.wait()
    whole = [line for line in rest.splitlines(keepends=True) if line.endswith(b"\n")]
    return session_id, answered + [line.decode().strip() for line in whole]


async def test_all_that_was_answered_is_in_the_log_of_a_server_that_is_killed(tmp_path: Path) -> None:
    session_id, answered = await _killed(tmp_path / "home")
    async with serving(tmp_path / "home") as server:
        events = await _events(server, session_id)
    started = {event.command for event in events if isinstance(event, CommandStarted)}
    ended = {event.command for event in events if isinstance(event, CommandEnded)}
    printed = "".join(event.text for event in events if isinstance(event, ShellPrinted))
    written = {event.path for event in events if isinstance(event, FileChanged)}
    words = {word for word in answered if word.startswith("word-")}
    assert {f"echo {word}" for word in words} <= started & ended
    assert words <= set(printed.split())
    assert {path for path in answered if path.startswith("file-")} <= written


async def test_the_end_of_a_command_comes_after_what_it_printed(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await _session(server)
        await server.host.call(session_id, requests.RunCommand("echo one; echo two >&2; false"))
        kinds = [event.type for event in await _events(server, session_id)]
    assert kinds[-4:] == ["command.started", "shell.printed", "shell.printed", "command.ended"]


async def test_what_cannot_be_recorded_is_refused_and_does_not_happen(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await _session(server)
        call = server.host.call
        await call(session_id, requests.RunCommand("true"))  # its shell is there
        before = await _events(server, session_id)
        with files_no_longer_than(_wal(tmp_path)):
            for refused in (
                requests.RunCommand("echo x > by_command"),
                requests.RunCommand("echo x > by_command"),
                requests.WriteFile("by_request", b""),
                requests.MakeDirectory("directory"),
                requests.OpenTerminal(),
            ):
                with pytest.raises(Unavailable):
                    await call(session_id, refused)
        assert (await call(session_id, requests.RunCommand("ls"))).stdout == ""
        assert await call(session_id, requests.ListTerminals()) == []
        after = (await _events(server, session_id))[len(before) :]
        assert [event.type for event in after] == ["command.started", "command.ended"]


async def test_a_session_whose_log_is_full_begins_nothing_and_can_be_ended(tmp_path: Path) -> None:
    async with serving(tmp_path / "home", sessions__log_bytes=1024 * 1024) as server:
        session_id = await _session(server)
        who = await owner(server)
        long = f": {'x' * 190_000}"
        for _ in range(3):
            await server.host.call(session_id, requests.RunCommand(long))
        refused = (
            server.host.call(session_id, requests.RunCommand("echo x > by_command")),
            server.host.call(session_id, requests.WriteFile("by_request", b"")),
            server.host.call(session_id, requests.OpenTerminal()),
            sessions.give(server.services, who, session_id, inputs.Prompt(text="Go on.")),
        )
        for each in refused:
            with pytest.raises(LimitReached, match=r"raise sessions\.log_bytes"):
                await each
        assert (await server.host.call(session_id, requests.ListFiles())).entries == []
        fork = await session_fork.fork(server.services, who, session_id)
        await state(server, who, fork.id, "idle")
        await sessions.give(server.services, who, session_id, inputs.End())
        assert await state(server, who, session_id, "ended") == "ended"
        assert (await server.log.head(session_id)).ended


async def test_what_happened_and_could_not_be_recorded_is_named_before_anything_else(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await _session(server)
        command = "while ! [ -e go ]; do sleep 0.05; done; echo unseen; exit 3"
        result = await server.host.call(session_id, requests.RunCommand(command, yield_s=0.0))
        seq = (await server.log.head(session_id)).seq
        with files_no_longer_than(_wal(tmp_path)):
            async with server.host.sandbox(session_id) as sandbox:
                (sandbox.workspace.place.directory / "go").touch()
                await sandbox.shells.background.get(result.id or "").wait(DEADLINE_S)
            shown = await server.host.call(session_id, requests.ReadCommand(result.id or ""))
            assert shown.text == "unseen\n"
            with pytest.raises(HutchError):
                await server.host.call(session_id, requests.RunCommand("echo x > by_command"))
        later = await until(server, session_id, "command.ended", after=seq)
        omitted, ended = later[-2:]
        assert isinstance(omitted, EventsOmitted) and isinstance(ended, CommandEnded)
        assert (omitted.cause, omitted.count, omitted.types) == ("storage", 1, {"shell.printed": 1})
        # 3 if `go` was noticed meanwhile: then its file.changed and snapshot.taken are late as well.
        assert omitted.late in (1, 3)
        assert omitted.since_ms <= omitted.until_ms and "does not work" in omitted.reason
        assert (ended.exit_code, ended.background_id) == (3, result.id)
        with pytest.raises(NotFound):
            await server.host.call(session_id, requests.StatFile("by_command"))


async def test_the_error_names_the_action_that_could_not_be_recorded(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await _session(server)
        terminal = await server.host.call(session_id, requests.OpenTerminal())
        with files_no_longer_than(_wal(tmp_path)):
            expected = f"^The terminal {terminal.id} was closed, but that could not be recorded. "
            with pytest.raises(DoneUnrecorded, match=expected):
                await server.host.call(session_id, requests.CloseTerminal(terminal.id))


@pytest.mark.parametrize("last", ["the end", "ghp_"])
async def test_what_the_agents_command_printed_is_in_the_log_before_its_result(
    tmp_path: Path, last: str
) -> None:
    """`ghp_` may be the beginning of a token, so it is held back for a while unless the stream has ended."""
    command = call("bash", command=f"seq 1 5000; printf '%s' {last!r}")
    model = cassette(tmp_path / "model.json", [command, {"text": "Enough."}])
    async with serving(tmp_path / "home", model=model) as server:
        session = await sessions.create(server.services, await owner(server), NewSession(prompt="Count"))
        await until(server, session.id, "run.ended")
        events = await _events(server, session.id)
        returned = next(place for place, event in enumerate(events) if isinstance(event, ToolReturned))
        printed = [each.text for each in events[:returned] if isinstance(each, ShellPrinted)]
        assert "".join(printed) == "".join(f"{number}\n" for number in range(1, 5001)) + last


def _order(events: list[Event]) -> list[str]:
    """The events of calls, commands and runs in order, output with its text and background id."""
    kinds = ("tool.called", "tool.returned", "command.ended", "run.ended")
    return [
        f"{event.text}{event.background_id or ''}" if isinstance(event, ShellPrinted) else event.type
        for event in events
        if isinstance(event, ShellPrinted) or event.type in kinds
    ]


async def test_a_cancelled_command_has_printed_everything_before_its_end_and_the_end_of_the_run(
    tmp_path: Path,
) -> None:
    """The output has no line end, so the recorder holds it for a while."""
    prints = call("bash", command="printf held; touch printing; sleep 300", timeout_s=400)
    model = cassette(tmp_path / "model.json", [prints, {"text": "Enough."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession(prompt="Print"))
        await until(server, session.id, "command.started")
        async with asyncio.timeout(DEADLINE_S), server.host.sandbox(session.id) as sandbox:
            while not (sandbox.workspace.place.directory / "printing").exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await sessions.give(server.services, who, session.id, inputs.Cancel())
        await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle", "paused")
        await server.host.call(session.id, requests.RunCommand("true"))  # later output would be written
        order = _order(await _events(server, session.id))
    assert order == ["tool.called", "held", "command.ended", "run.ended", "command.ended"]


async def test_output_of_a_command_that_goes_to_the_background_stays_with_its_call(tmp_path: Path) -> None:
    """The output has no line end, so the recorder holds it for a while."""
    waits = "printf before; until [ -e go ]; do sleep 0.01; done; printf after"
    first = call("bash", command=waits, yield_s=3)
    second = call("bash", command="touch go")
    model = cassette(tmp_path / "model.json", [first, second, {"text": "Enough."}])
    async with serving(tmp_path / "home", model=model) as server:
        session = await sessions.create(server.services, await owner(server), NewSession(prompt="Print"))
        await until(server, session.id, "run.ended")
        async with server.host.sandbox(session.id) as sandbox:
            await sandbox.shells.background.get("bg_1").wait(DEADLINE_S)
        await server.host.call(session.id, requests.RunCommand("true"))
        order = _order(await _events(server, session.id))
    assert order[:4] == ["tool.called", "before", "tool.returned", "tool.called"]
    assert order[order.index("afterbg_1") + 1] == "command.ended"


async def test_what_runs_in_the_background_is_not_mixed_with_the_agents_next_command(tmp_path: Path) -> None:
    """A secret that is printed in two parts is recognised only when nothing stands between them."""
    ticking = call("bash", command="while :; do echo tick; sleep 0.05; done", yield_s=0.2)
    parts = call("bash", command="printf first-; sleep 0.5; printf second")
    model = cassette(tmp_path / "model.json", [ticking, parts, {"text": "Enough."}])
    async with serving(tmp_path / "home", model=model) as server:
        session = await sessions.create(server.services, await owner(server), NewSession(prompt="Tick"))
        await until(server, session.id, "run.ended")
        events = await _events(server, session.id)
        first = next(place for place, event in enumerate(events) if isinstance(event, ToolReturned))
        printed = [each for each in events[first:] if isinstance(each, ShellPrinted)]
        assert "".join(each.text for each in printed if not each.background_id) == "first-second"
        ticks = [each.text for each in printed if each.background_id]  # one event may hold several
        assert {line for text in ticks for line in text.split()} == {"tick"}


async def test_a_run_that_ends_on_a_full_disk_has_its_end_when_there_is_room(tmp_path: Path) -> None:
    waits = call("bash", command="until [ -e go ]; do sleep 0.05; done", timeout_s=400)
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        model = cassette(tmp_path / "model.json", [waits, {"text": "That is all."}])
        made = await sessions.create(server.services, who, NewSession(model=model, prompt="Go."))
        await until(server, made.id, "tool.called")
        with capture_logs() as logged, files_no_longer_than(_wal(tmp_path)):
            async with server.host.sandbox(made.id) as sandbox:
                (sandbox.workspace.place.directory / "go").touch()
            async with asyncio.timeout(DEADLINE_S):
                while not any(line["event"] == "run.not_ended" for line in logged):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
        (*_, ended) = await until(server, made.id, "run.ended")
        assert (ended.outcome, "does not work" in ended.reason) == ("failed", True)
        await state(server, who, made.id, "idle")
