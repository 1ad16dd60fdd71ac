"""Versions that people save are recorded also while others work."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain.events import SnapshotTaken
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.snapshot_schedule import AFTER_INPUT, AFTER_PAUSE, WHILE_WORKING
from tests.sessions.session_server import serving
from tests.sessions.test_file_change_recorder import all_wait, changes_of, logged, opened, origin, sha

pytestmark = pytest.mark.anyio

EDITOR = b"while read line; do echo $line >> doc; done\n"  # writes a version per line


async def test_a_save_in_a_terminal_while_the_command_of_another_waits(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.RunCommand("mkfifo /tmp/go"), by="u1")
        waiting = requests.RunCommand("read line < /tmp/go; echo of_u1 >> doc")
        running = asyncio.ensure_future(ask(session_id, waiting, by="u1"))
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        async with server.host.terminal(session_id, terminal.id, by="u2") as viewer:
            await viewer.write(EDITOR)
            await all_wait(server, session_id, commands=3)
            await viewer.write(b"of_u2\n")
            saved = await changes_of(server, session_id, "doc")
            assert not running.done()
            reasons = [
                each.reason for each in await logged(server, session_id) if isinstance(each, SnapshotTaken)
            ]
            last = len(await logged(server, session_id))
            await ask(session_id, requests.RunCommand("echo > /tmp/go", shell="other"), by="u1")
            await running
            added = await changes_of(server, session_id, "doc", after=last)
    # The snapshot after the terminal's first command may come so late that it already has the save.
    assert reasons[-1] in (AFTER_PAUSE, f"after a command in terminal {terminal.id}")
    assert origin(saved["doc"]) == [("created", "u2", "terminal", terminal.id)]
    assert saved["doc"][0].after == added["doc"][0].before == sha("of_u2\n")
    assert added["doc"][0].by == "u1"


async def test_a_save_in_a_terminal_while_a_job_of_another_writes_without_a_pause(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        job = "(while :; do echo x >> log; sleep 0.02; done) > /dev/null 2>&1 &"
        await ask(session_id, requests.RunCommand(job), by="u1")
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        async with server.host.terminal(session_id, terminal.id, by="u2") as viewer:
            await viewer.write(EDITOR)
            text, reasons = "", [""]
            # On a busy machine the job itself pauses at times, and a line is then recorded after a pause.
            while text.count("\n") < 2 or AFTER_INPUT not in reasons:
                line = f"{len(text)}\n"
                text += line
                last = len(await logged(server, session_id))
                await viewer.write(line.encode())
                saved = await changes_of(server, session_id, "doc", after=last)
                assert [each.after for each in saved["doc"]] == [sha(text)]
                events = await logged(server, session_id)
                reasons = [each.reason for each in events if isinstance(each, SnapshotTaken)]
    assert WHILE_WORKING not in reasons
