"""Every change of a session's files is in the log once, with its author."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.current_actor_and_author import AGENT
from hutch.domain.events import CommandStarted, Event, FileChanged, FilesChanged, SnapshotTaken
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.jail.command_cpu_activity import RunClock
from hutch.sessions import file_and_command_requests as requests
from hutch.sessions.interface import Viewer
from hutch.snapshots.disk_walk import TICK_NS, Clock
from tests.deadline import DEADLINE_S
from tests.sessions.session_server import call, cassette, owner, repository, serving, state, until

pytestmark = pytest.mark.anyio


async def opened(server: Server, **about: Any) -> SessionId:
    who = await owner(server)
    session = await sessions.create(server.services, who, NewSession(purpose="changes", **about))
    await state(server, who, session.id, "idle")
    return session.id


async def changes_of(
    server: Server, session_id: SessionId, *paths: str, after: int = 0
) -> dict[str, list[FileChanged]]:
    """The recorded changes by path, once all these paths have one."""
    found: dict[str, list[FileChanged]] = {}
    async with asyncio.timeout(DEADLINE_S), aclosing(server.log.follow(session_id, after=after)) as entries:
        async for entry in entries:
            if isinstance(entry.event, FileChanged):
                found.setdefault(entry.event.path, []).append(entry.event)
            if found.keys() >= set(paths):
                return found
    raise AssertionError(f"no changes of {paths}")


async def logged(server: Server, session_id: SessionId) -> list[Event]:
    found: list[Event] = []
    last = 0
    while page := await server.log.read(session_id, after=last):
        found += [entry.event for entry in page if isinstance(entry.event, Event)]
        last = page[-1].seq
    return found


async def shows(viewer: Viewer, text: str) -> None:
    seen = b""
    async with asyncio.timeout(DEADLINE_S):
        async for _, data in viewer:
            viewer.acknowledge(len(data))
            seen += data
            if text.encode() in seen:
                return
            assert b"not found" not in seen, seen  # a program that this machine lacks


async def all_wait(server: Server, session_id: SessionId, *, commands: int) -> None:
    """Wait until so many commands have begun, their processes wait, Hutch has read their clocks, and the
    clock of files has ticked."""
    async with asyncio.timeout(DEADLINE_S):
        async with server.host.sandbox(session_id) as sandbox:
            clock = RunClock(lambda: sandbox.jail._commands)
            while clock.has_run() or await count_started(server, session_id) < commands:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await server.host.call(session_id, requests.TakeSnapshot("now"), by="u2")
        read_at = Clock.now().began_ns
        while Clock.now().began_ns < read_at + 2 * TICK_NS:  # noqa: ASYNC110
            await asyncio.sleep(TICK_NS / 1e9)


async def count_started(server: Server, session_id: SessionId) -> int:
    return len([each for each in await logged(server, session_id) if isinstance(each, CommandStarted)])


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def origin(events: Sequence[FileChanged]) -> list[tuple[str, str, str, str]]:
    return [(each.kind, each.by, each.cause, each.source) for each in events]


async def test_a_command_of_a_user(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        await server.host.call(
            session_id, requests.RunCommand("echo one > a; mkdir d; echo two > d/b"), by="u1"
        )
        found = await changes_of(server, session_id, "a", "d/b")
        await server.host.call(session_id, requests.RunCommand("rm a; echo more >> d/b"), by="u2")
        later = await changes_of(server, session_id, "a", "d/b", after=len(await logged(server, session_id)))
    assert origin(found["a"]) == origin(found["d/b"]) == [("created", "u1", "command", "main")]
    assert (found["a"][0].before, found["a"][0].after) == (None, sha("one\n"))
    assert origin(later["a"]) == [("deleted", "u2", "command", "main")]
    assert origin(later["d/b"]) == [("modified", "u2", "command", "main")]
    assert (later["d/b"][0].before, later["d/b"][0].after) == (sha("two\n"), sha("two\nmore\n"))
    assert later["a"][0].previous_snapshot == found["a"][0].snapshot > found["a"][0].previous_snapshot


async def test_a_request(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.WriteFile("a", b"one"), by="u1")
        await ask(session_id, requests.WriteFile("a", b"two"), by="u2")
        await ask(session_id, requests.MakeDirectory("d"), by="u2")
        await ask(session_id, requests.MoveFile("a", "d/a"), by="u3")
        await ask(session_id, requests.DeleteFile("d"), by="u1")
        found = [each for each in await logged(server, session_id) if isinstance(each, FileChanged)]
    assert [(each.path, each.kind, each.by) for each in found] == [
        ("a", "created", "u1"),
        ("a", "modified", "u2"),
        ("d", "created", "u2"),
        ("d/a", "moved", "u3"),
        ("d/a", "deleted", "u1"),
    ]
    assert {(each.cause, each.source) for each in found} == {("request", "")}
    assert found[3].moved_from == "a"
    numbers = [(each.previous_snapshot, each.snapshot) for each in found]
    assert numbers == sorted(numbers) and all(old < new for old, new in numbers)


UNTIL_GO = "until [ -e go ]; do sleep 0.05; done"


async def test_the_agents_tools(tmp_path: Path) -> None:
    replies = [
        call("write_file", path="written.py", content="x = 1\n"),
        call("bash", command=f"echo y > by_bash; ({UNTIL_GO}; echo z > later) & sleep 0.01"),
        {"text": "Done."},
    ]
    model = cassette(tmp_path / "model.json", replies)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        repo = repository(tmp_path / "repo")
        session_id = await opened(server, repository=str(repo))
        await sessions.give(server.services, who, session_id, inputs.Prompt(text="Go."))
        await until(server, session_id, "run.ended")
        await server.host.call(session_id, requests.WriteFile("go", b""), by="u1")
        found = await changes_of(server, session_id, "written.py", "by_bash", "later")
        events = await logged(server, session_id)
    first, second = found["written.py"][0], found["by_bash"][0]
    assert origin([first]) == [("created", AGENT, "tool", first.call_id)]
    assert origin([second]) == [("created", AGENT, "tool", second.call_id)]
    assert first.call_id and second.call_id and first.call_id != second.call_id
    assert origin(found["later"]) == [("created", AGENT, "job", "agent")]
    kinds = [event.type for event in events]
    ended = kinds.index("run.ended")
    assert not {"tool.returned", "model.replied", "tests.run"} & set(kinds[ended:])
    taken = [index for index, event in enumerate(events) if isinstance(event, SnapshotTaken)]
    assert any(index < ended and events[index].reason.startswith("after bash") for index in taken)


async def test_work_at_the_same_time_names_all_possible_authors(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        # The first command answers during the second one, so it has run then, however busy the machine is.
        spins = "until [ -e asks ]; do :; done; touch answers; until [ -e go ]; do :; done; echo a > by_1"
        slow = asyncio.ensure_future(ask(session_id, requests.RunCommand(spins, "one"), by="u1"))
        waits = "touch asks; until [ -e answers ]; do sleep 0.01; done; echo b > by_2"
        await ask(session_id, requests.RunCommand(waits, "two"), by="u2")
        # A change in the tick of the files' clock in which the second command ended could be of either.
        await asyncio.sleep(2 * TICK_NS / 1e9)
        await ask(session_id, requests.WriteFile("go", b""), by="u2")
        await slow
        await ask(session_id, requests.RunCommand("echo c > alone", "two"), by="u2")
        found = await changes_of(server, session_id, "by_1", "by_2", "alone")
    assert (found["by_2"][0].by, found["by_2"][0].possible_authors) == ("", ("u1", "u2"))
    assert origin(found["by_1"]) == [("created", "u1", "command", "one")]
    assert origin(found["alone"]) == [("created", "u2", "command", "two")]


async def test_a_write_request_is_exact_while_commands_run(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        running = await ask(session_id, requests.RunCommand("sleep 60", yield_s=0.05), by="u1")
        assert running.id
        await ask(session_id, requests.WriteFile("a", b"one"), by="u2")
        found = await changes_of(server, session_id, "a")
    assert origin(found["a"]) == [("created", "u2", "request", "")]


async def test_a_job_in_the_background_and_a_terminal(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        command = f"{UNTIL_GO}; echo x > by_job; sleep 600"
        result = await ask(session_id, requests.RunCommand(command, yield_s=0.05), by="u1")
        await ask(session_id, requests.WriteFile("go", b""), by="u1")
        found = await changes_of(server, session_id, "by_job")
        assert origin(found["by_job"]) == [("created", "u1", "job", result.id)]
        await ask(session_id, requests.SignalCommand(str(result.id), 9), by="u1")
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        async with server.host.terminal(session_id, terminal.id) as viewer:
            await viewer.write(b"echo t > by_terminal\n")
            typed = await changes_of(server, session_id, "by_terminal")
    assert origin(typed["by_terminal"]) == [("created", "u2", "terminal", terminal.id)]


async def test_a_job_in_the_shell_of_a_command_that_continues_in_the_background(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.RunCommand(f"({UNTIL_GO}; echo x > by_job) & echo ok"), by="u1")
        await ask(session_id, requests.RunCommand("sleep 600", yield_s=0.3), by="u2")
        await ask(session_id, requests.WriteFile("go", b""), by="u1")
        [change] = (await changes_of(server, session_id, "by_job"))["by_job"]
    assert (change.by, change.possible_authors) == ("", ("u1", "u2"))


async def test_a_command_that_is_typed_ahead_has_its_author(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        async with server.host.terminal(session_id, terminal.id, by="u2") as viewer:
            # The other command has begun before the second line runs, however busy the machine is.
            first = "until [ -e /tmp/begun ]; do sleep 0.05; done"
            await viewer.write(f"{first}\rsleep 0.5; echo t > ahead\r".encode())
            spins = "touch /tmp/begun; until [ -e ahead ]; do :; done; sleep 1"
            busy = asyncio.ensure_future(ask(session_id, requests.RunCommand(spins), by="u1"))
            found = await changes_of(server, session_id, "ahead")
            await busy
    [change] = found["ahead"]
    assert (change.by, change.possible_authors) == ("", ("u1", "u2"))


# Waits for a connection. `python3 -m http.server` looks up twice a second, so it does more than wait.
SERVER = (
    "python3 -c \"import socketserver as s; server = s.TCPServer(('127.0.0.1', 0), s.BaseRequestHandler); "
    "print('Serv' 'ing'); server.serve_forever(None)\""
)


@pytest.mark.parametrize(
    ("program", "shown"),
    [
        ("sleep 1000", "sleep"),
        ("less f", "(END)"),
        ("python3", ">>> "),
        (SERVER, "Serving"),
        ("cat", "cat"),
    ],
    ids=["sleep", "less", "python3", "server", "cat"],
)
async def test_a_program_that_only_waits_in_a_terminal_is_not_at_work(
    tmp_path: Path, program: str, shown: str
) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.WriteFile("f", b"one"), by="u2")
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        async with server.host.terminal(session_id, terminal.id, by="u2") as viewer:
            await viewer.write(f"{program}\n".encode())
            await shows(viewer, shown)
            await all_wait(server, session_id, commands=1)
            await ask(session_id, requests.RunCommand("echo a > by_1; echo a > gone"), by="u1")
            await ask(session_id, requests.RunCommand("rm gone; mkdir d; mv by_1 d"), by="u1")
            found = await changes_of(server, session_id, "d/by_1")
        changes = [each for each in await logged(server, session_id) if isinstance(each, FileChanged)]
    assert {each.by for each in changes if each.path != "f"} == {"u1"}
    assert found["d/by_1"][0].alone


async def test_jobs_and_commands_that_only_wait_are_not_at_work(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.RunCommand("sleep 1000 & sleep 0.2", "shared"), by="u2")
        waiting = await ask(session_id, requests.RunCommand("cat; sleep 1000", "two", yield_s=0.5), by="u2")
        assert waiting.running
        await all_wait(server, session_id, commands=2)
        await ask(session_id, requests.RunCommand("echo a > same_shell", "shared"), by="u1")
        await ask(session_id, requests.RunCommand("echo a > other_shell", "three"), by="u1")
        found = await changes_of(server, session_id, "same_shell", "other_shell")
    assert origin(found["same_shell"]) == [("created", "u1", "command", "shared")]
    assert origin(found["other_shell"]) == [("created", "u1", "command", "three")]


async def test_a_program_that_waited_is_at_work_when_it_runs_again(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        terminal = await ask(session_id, requests.OpenTerminal(), by="u2")
        script = "read x; echo woken > by_2; echo do''ne; read x"
        async with server.host.terminal(session_id, terminal.id, by="u2") as viewer:
            await viewer.write(f"sh -c '{script}'\n".encode())
            await all_wait(server, session_id, commands=1)
            await ask(session_id, requests.RunCommand("echo a > by_1"), by="u1")
            await all_wait(server, session_id, commands=2)
            await viewer.write(b"\n")
            await shows(viewer, "done")
            found = await changes_of(server, session_id, "by_1", "by_2")
    assert origin(found["by_1"]) == [("created", "u1", "command", "main")]
    assert origin(found["by_2"]) == [("created", "u2", "terminal", terminal.id)]


async def test_changes_while_the_server_is_down_are_recorded_at_the_next_start(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        await server.host.call(session_id, requests.WriteFile("a", b"one"), by="u1")
        before = len(await logged(server, session_id))
    [tree] = (tmp_path / "home").glob("**/tree")
    (tree / "a").write_text("two")
    async with serving(tmp_path / "home") as server:
        await server.host.call(session_id, requests.RunCommand("true"), by="u1")
        found = await changes_of(server, session_id, "a", after=before)
        again = [each for each in await logged(server, session_id) if isinstance(each, FileChanged)]
    assert origin(found["a"]) == [("modified", "", "unknown", "")]
    assert len(again) == 2


async def test_a_restored_snapshot(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.WriteFile("a", b"one"), by="u1")
        snapshot = await ask(session_id, requests.TakeSnapshot("here"), by="u1")
        await ask(session_id, requests.WriteFile("a", b"two"), by="u1")
        await ask(session_id, requests.RestoreSnapshot(snapshot.id), by="u2")
        found = [each for each in await logged(server, session_id) if isinstance(each, FileChanged)]
    assert origin(found[-1:]) == [("modified", "u2", "restore", str(snapshot.id))]
    assert found[-1].after == sha("one")


async def test_many_files_are_summarised(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        many = "mkdir build other; seq 3000 | (cd build; xargs touch); seq 5 | (cd other; xargs touch)"
        await server.host.call(session_id, requests.RunCommand(many), by="u1")
        await server.host.call(session_id, requests.WriteFile("mine", b"x"), by="u2")
        await changes_of(server, session_id, "mine")
        events = await logged(server, session_id)
    *listed, mine = [each for each in events if isinstance(each, FileChanged)]
    counted = [each for each in events if isinstance(each, FilesChanged)]
    # A snapshot while the command works divides its files; few that are left are listed.
    assert {(each.by, each.cause, each.source) for each in counted} == {("u1", "command", "main")}
    assert sum(each.created for each in counted) + len(listed) == 3005
    directories = Counter(each.path.partition("/")[0] for each in listed)
    for each in counted:
        directories.update(each.directories)
    assert directories == {"build": 3000, "other": 5}
    assert mine.path == "mine"


async def test_ignored_files_are_summarised(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        await server.host.call(session_id, requests.WriteFile(".gitignore", b"out/\n"), by="u1")
        command = "mkdir out; touch out/a out/b; touch seen"
        await server.host.call(session_id, requests.RunCommand(command), by="u1")
        await changes_of(server, session_id, "seen")
        await server.host.call(session_id, requests.RunCommand("true"), by="u1")
        events = await logged(server, session_id)
    [counted] = [each for each in events if isinstance(each, FilesChanged)]
    assert (counted.created, counted.ignored, counted.directories) == (2, True, {"out": 2})
    assert [each.path for each in events if isinstance(each, FileChanged)] == [".gitignore", "seen"]


async def test_forged_times_do_not_change_the_author(tmp_path: Path) -> None:
    """A command can set mtime and atime to any time, but not the time of the change itself."""
    async with serving(tmp_path / "home") as server:
        session_id = await opened(server)
        ask = server.host.call
        await ask(session_id, requests.RunCommand("touch mark; mkdir d; echo x > d/kept"), by="u1")
        await changes_of(server, session_id, "mark", "d/kept")
        forge = "echo forged > f; touch -r mark f; cp -p mark copied; mv d renamed"
        await ask(session_id, requests.RunCommand(forge), by="u2")
        found = await changes_of(server, session_id, "f", "copied", "renamed/kept")
    for path in ("f", "copied", "renamed/kept"):
        assert origin(found[path]) == [("created", "u2", "command", "main")]


MAPS = """
import mmap, os, sys
os.mkfifo("/tmp/steps")
f = open("mapped", "r+b")
page = mmap.mmap(f.fileno(), 4)
open("/tmp/ready", "w").close()
while True:
    for line in open("/tmp/steps"):
        page[:] = line[:4].encode()
        open("/tmp/" + line[:4], "w").close()
"""


@pytest.mark.parametrize("mode", ["copy", "overlay"])
async def test_repeated_writes_through_a_memory_map_are_recorded(tmp_path: Path, mode: str) -> None:
    """Only the first write to a page changes the time stamps of the file."""
    async with serving(tmp_path / "home", workspace__mode=mode) as server:
        repo = repository(tmp_path / "repo", {"maps.py": MAPS, "mapped": "none"})
        session_id = await opened(server, repository=str(repo))
        ask = server.host.call
        await ask(session_id, requests.RunCommand("python3 maps.py", "mapping", yield_s=0.05), by="u2")
        await ask(session_id, requests.RunCommand("until [ -e /tmp/ready ]; do sleep 0.02; done"), by="u1")
        for word in ("one ", "two ", "last"):
            write = f"echo '{word}' > /tmp/steps; until [ -e '/tmp/{word}' ]; do sleep 0.02; done"
            await ask(session_id, requests.RunCommand(write), by="u1")
            await all_wait(server, session_id, commands=1)
            await ask(session_id, requests.TakeSnapshot("now"), by="u1")  # now its time stamps are settled
        changes = [each for each in await logged(server, session_id) if isinstance(each, FileChanged)]
    found = [each for each in changes if each.path == "mapped"]
    assert [each.after for each in found] == [sha("one "), sha("two "), sha("last")]
    assert all(each.by == "u2" or "u2" in each.possible_authors for each in found)
