"""Undo names what people's commands may have changed while the agent worked."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.errors import HutchError, WorkWouldBeLost
from hutch.domain.events import QuestionAsked
from hutch.domain.ids import SessionId
from hutch.domain.session import NewSession
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.gateway.context import Server
from hutch.sessions import requests
from hutch.sessions.user_command_changes import PROMPT
from tests.deadline import DEADLINE_S
from tests.sessions.hosting import call, cassette, owner, repository, serving, state, until
from tests.workspace.full_disk import files_no_longer_than

pytestmark = pytest.mark.anyio

IGNORING = {"a.txt": "a\n", ".gitignore": ".env\nbuild/\n__pycache__/\n"}
SCRIPT = (
    call("write_file", path="agents.txt", content="agent\n"),
    call("ask_user", question="And now?"),
    call("bash", command="echo agent > late.txt"),
    call("finish", summary="Done."),
)


async def begin(
    server: Server, who: Caller, tmp_path: Path, files: dict[str, str] | None = None
) -> SessionId:
    """A session whose agent has written a file, and waits for an answer."""
    model = cassette(tmp_path / "c.json", SCRIPT)
    new = NewSession(repository=str(repository(tmp_path / "repo", files)), model=model, prompt="Write.")
    session = await sessions.create(server.services, who, new)
    await state(server, who, session.id, "waiting")
    return session.id


async def finish(server: Server, who: Caller, session: SessionId) -> int:
    """Let the agent do the rest; how many events there are then."""
    asked = (await until(server, session, "question.asked"))[-1]
    assert isinstance(asked, QuestionAsked)
    await sessions.give(server.services, who, session, inputs.Answer(call_id=asked.call_id, text="Go on."))
    events = await until(server, session, "run.ended")
    await state(server, who, session, "idle")
    return len(events)


async def run(server: Server, session: SessionId, command: str, shell: str = "main") -> None:
    ran = await server.host.call(session, requests.RunCommand(command, shell), by="usr_x")
    assert ran.exit_code == 0, ran


async def lost(server: Server, who: Caller, session: SessionId) -> Sequence[str]:
    """The files for which an undo of the run is refused, after the agent is done."""
    await finish(server, who, session)
    with pytest.raises(WorkWouldBeLost) as refused:
        await sessions.give(server.services, who, session, inputs.Undo())
    return refused.value.paths


async def test_what_a_persons_command_changes_while_the_agent_works_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await run(server, session, "echo mine > mine.txt; echo '# mine' >> slug.py")
        assert await lost(server, who, session) == ("mine.txt", "slug.py")


async def test_a_command_that_changes_nothing_does_not_hinder_an_undo(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await run(server, session, "ls")
        count = await finish(server, who, session)
        await sessions.give(server.services, who, session, inputs.Undo())
        await until(server, session, "session.rewound", after=count)


async def test_what_a_command_in_the_background_changes_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        command = "until [ -e /tmp/write ]; do sleep 0.05; done; echo mine > mine.txt; touch /tmp/written"
        asked = requests.RunCommand(command, yield_s=0.1)
        assert (await server.host.call(session, asked, by="usr_x")).running
        await run(server, session, "touch /tmp/write; until [ -e /tmp/written ]; do sleep 0.05; done", "2")
        assert "mine.txt" in await lost(server, who, session)


async def test_what_somebody_types_in_a_terminal_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        opened = await server.host.call(session, requests.OpenTerminal(), by="usr_x")
        async with asyncio.timeout(DEADLINE_S), server.host.terminal(session, opened.id) as viewer:
            await viewer.write(b"echo mine > mine.txt; echo do''ne\n")
            seen = b""
            async for _, data in viewer:
                seen += data
                viewer.acknowledge(len(data))
                if b"done" in seen:
                    break
        assert "mine.txt" in await lost(server, who, session)


async def test_what_somebody_restores_while_the_agent_works_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        new = NewSession(model=cassette(tmp_path / "c.json", SCRIPT))
        session = (await sessions.create(server.services, who, new)).id
        await state(server, who, session, "idle")
        await server.host.call(session, requests.WriteFile("old.txt", b"mine"), by="usr_x")
        taken = await server.host.call(session, requests.TakeSnapshot("mine"), by="usr_x")
        await server.host.call(session, requests.DeleteFile("old.txt"), by="usr_x")
        await sessions.give(server.services, who, session, inputs.Prompt(text="Write."))
        await state(server, who, session, "waiting")
        await server.host.call(session, requests.RestoreSnapshot(taken.id, "old.txt"), by="usr_x")
        assert await lost(server, who, session) == ("old.txt",)


async def test_a_command_before_the_run_is_in_nobodys_way(tmp_path: Path) -> None:
    script = [call("bash", command="echo agent > agents.txt"), call("finish", summary="Done.")]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await server.host.call(session.id, requests.WriteFile("mine.txt", b"mine"))
        await run(server, session.id, "echo too > too.txt")
        await sessions.give(server.services, who, session.id, inputs.Prompt(text="Go"))
        await until(server, session.id, "run.ended")
        await state(server, who, session.id, "idle")
        assert await server.host.call(session.id, requests.FindLostByUndo()) == []


async def test_a_command_in_the_agents_own_shell_is_a_persons(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await run(server, session, "echo mine > mine.txt", "agent")
        assert await lost(server, who, session) == ("mine.txt",)


async def test_a_command_in_the_agents_own_shell_leaves_it_to_the_agent(tmp_path: Path) -> None:
    model = cassette(tmp_path / "c.json", [call("bash", command="echo $BASH $x"), {"text": "Done."}])
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = await sessions.create(server.services, who, NewSession())
        await state(server, who, session.id, "idle")
        await run(server, session.id, "x=1", "agent")
        await sessions.give(server.services, who, session.id, inputs.Prompt(text="Go"))
        events = await until(server, session.id, "tool.returned")
        assert events[-1].text == "/bin/bash 1"


JOB = "until [ -e go ]; do sleep 0.05; done; echo mine > mine.txt; touch /tmp/written"
LET_WRITE = "touch go; until [ -e /tmp/written ]; do sleep 0.05; done"


async def let_write(server: Server, session: SessionId) -> None:
    """Have a job write its file, without a command."""
    await server.host.call(session, requests.WriteFile("go", b""), by="usr_x")
    async with asyncio.timeout(DEADLINE_S):
        while not (await server.host.call(session, requests.FindFiles("mine.txt"))).paths:
            pass


async def type_in(server: Server, session: SessionId, typed: str, until_shown: str) -> None:
    """Type in a new terminal, and leave it when a text is shown."""
    opened = await server.host.call(session, requests.OpenTerminal(), by="usr_x")
    async with asyncio.timeout(DEADLINE_S), server.host.terminal(session, opened.id) as viewer:
        await viewer.write(typed.encode())
        seen = b""
        async for _, data in viewer:
            seen += data
            viewer.acknowledge(len(data))
            if until_shown.encode() in seen and PROMPT.search(seen.decode()):
                break


async def take_snapshots(server: Server, session: SessionId) -> None:
    """As many as the agent might take, so that all that has ended is known to have ended."""
    for number in range(3):
        await server.host.call(session, requests.WriteFile(f"note{number}", b"x"), by="usr_x")
        await server.host.call(session, requests.TakeSnapshot("between"), by="usr_x")


@pytest.mark.parametrize(
    "command", [f"({JOB}) &", f"setsid sh -c '{JOB}' &", f"nohup sh -c '{JOB}' >/dev/null 2>&1 &"]
)
async def test_what_a_command_leaves_running_changes_later_is_named(tmp_path: Path, command: str) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await run(server, session, command)
        await take_snapshots(server, session)
        await let_write(server, session)
        assert "mine.txt" in await lost(server, who, session)


async def test_a_job_from_before_the_run_is_named(tmp_path: Path) -> None:
    script = [call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"), {"text": "Done."}]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await state(server, who, session, "idle")
        await run(server, session, f"({JOB}) &")
        await sessions.give(server.services, who, session, inputs.Prompt(text="Go"))
        await until(server, session, "run.ended")
        await state(server, who, session, "idle")
        assert "mine.txt" in await server.host.call(session, requests.FindLostByUndo())


async def test_a_job_of_a_command_that_could_not_be_recorded_is_named(tmp_path: Path) -> None:
    script = [call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"), {"text": "Done."}]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await state(server, who, session, "idle")
        running = asyncio.ensure_future(
            run(server, session, f"until [ -e begin ]; do sleep 0.05; done; ({JOB}) &")
        )
        await until(server, session, "command.started")
        wal = tmp_path / "home" / "data" / "hutch.db-wal"
        with files_no_longer_than(wal.stat().st_size):
            async with server.host.sandbox(session) as desk:
                (desk.workspace.place.directory / "begin").touch()
            with pytest.raises(HutchError, match="could not be recorded"):
                await running
        await sessions.give(server.services, who, session, inputs.Prompt(text="Go"))
        told = await until(server, session, "run.ended")
        await state(server, who, session, "idle")
        assert "jobs.detached" in [event.type for event in told]
        assert "mine.txt" in await server.host.call(session, requests.FindLostByUndo())


async def test_a_job_that_ended_before_the_run_is_in_nobodys_way(tmp_path: Path) -> None:
    script = [call("bash", command="echo agent > agents.txt"), {"text": "Done."}]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await state(server, who, session, "idle")
        await run(server, session, f"({JOB}) &")
        await until(server, session, "jobs.detached")
        await run(server, session, LET_WRITE, "2")
        await until(server, session, "jobs.ended")
        await sessions.give(server.services, who, session, inputs.Prompt(text="Go"))
        await until(server, session, "run.ended")
        await state(server, who, session, "idle")
        assert await server.host.call(session, requests.FindLostByUndo()) == []


@pytest.mark.parametrize("bash", [{"command": f"({JOB}) &"}, {"command": JOB, "yield_s": 0.1}])
async def test_a_job_of_an_earlier_run_is_named(tmp_path: Path, bash: dict[str, Any]) -> None:
    script = [
        call("bash", **bash),
        {"text": "Begun."},
        call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"),
        {"text": "Done."},
    ]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await state(server, who, session, "idle")
        count = 0
        for _ in range(2):
            await sessions.give(server.services, who, session, inputs.Prompt(text="Go"))
            count += len(await until(server, session, "run.ended", after=count))
            await state(server, who, session, "idle")
        assert "mine.txt" in await server.host.call(session, requests.FindLostByUndo())


async def test_the_agents_own_jobs_do_not_hinder_an_undo(tmp_path: Path) -> None:
    script = [
        call("bash", command=f"({JOB}) &"),
        call("bash", command="echo agent > agents.txt; sleep 1", yield_s=0.1),
        call("bash", command=LET_WRITE),
        call("bash", command="echo agent > late.txt"),
        {"text": "Done."},
    ]
    model = cassette(tmp_path / "c.json", script)
    async with serving(tmp_path / "home", model=model) as server:
        who = await owner(server)
        session = (await sessions.create(server.services, who, NewSession())).id
        await sessions.give(server.services, who, session, inputs.Prompt(text="Go"))
        await until(server, session, "run.ended")
        await state(server, who, session, "idle")
        assert await server.host.call(session, requests.FindLostByUndo()) == []


async def test_a_job_of_a_command_that_ended_in_the_background_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        command = f"until [ -e /tmp/go ]; do sleep 0.05; done; ({JOB}) &"
        asked = requests.RunCommand(command.replace("; (", "; sleep 0; ("), yield_s=0.1)
        assert (await server.host.call(session, asked, by="usr_x")).running
        await run(server, session, "touch /tmp/go", "2")
        await until(server, session, "jobs.detached")
        await take_snapshots(server, session)
        await let_write(server, session)
        assert "mine.txt" in await lost(server, who, session)


async def test_a_job_of_a_terminal_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await type_in(server, session, f"PS1='$ '; ({JOB}) & echo be''gun\n", "begun")
        await take_snapshots(server, session)
        await let_write(server, session)
        assert "mine.txt" in await lost(server, who, session)


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("git branch mine", (".git/refs/heads/mine",)),
        ("git tag mine", (".git/refs/tags/mine",)),
        ("echo mine > mine.txt; git add mine.txt; git stash -q -- mine.txt", (".git/refs/stash",)),
    ],
)
async def test_branches_tags_and_stashes_of_people_are_named(
    tmp_path: Path, command: str, names: tuple[str, ...]
) -> None:
    """Their files are not there any more, and the commits would go with the names."""
    author = "export " + " ".join(
        f"GIT_{who}_{what}=a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
    )
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path)
        await finish(server, who, session)
        await run(server, session, f"{author}; {command}; git status > /dev/null")
        with pytest.raises(WorkWouldBeLost) as refused:
            await sessions.give(server.services, who, session, inputs.Undo())
        assert refused.value.paths == names


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("echo mine > .env; mkdir build; echo mine > build/log", (".env", "build/log")),
        ("mkdir -p empty/below", ("empty/below",)),
        ("git config user.name mine; git status > /dev/null", (".git/config",)),
        ("mkdir -p .git/hooks; echo mine > .git/hooks/post-commit", (".git/hooks/post-commit",)),
    ],
)
@pytest.mark.parametrize("when", ["during", "after"])
async def test_what_git_would_not_commit_is_named_too(
    tmp_path: Path, when: str, command: str, names: tuple[str, ...]
) -> None:
    """An undo removes ignored files, empty directories and what is in `.git` as it removes others."""
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path, IGNORING)
        if when == "during":
            await run(server, session, command)
            assert await lost(server, who, session) == names
        else:
            await finish(server, who, session)
            await run(server, session, command)
            with pytest.raises(WorkWouldBeLost) as refused:
                await sessions.give(server.services, who, session, inputs.Undo())
            assert refused.value.paths == names


async def test_ignored_caches_do_not_hinder_an_undo(tmp_path: Path) -> None:
    """Whoever runs the tests makes them; they are nobody's work."""
    async with serving(tmp_path / "home") as server:
        who = await owner(server)
        session = await begin(server, who, tmp_path, IGNORING)
        await finish(server, who, session)
        await run(server, session, "mkdir __pycache__; echo cache > __pycache__/a.pyc")
        await sessions.give(server.services, who, session, inputs.Undo())
        await until(server, session, "session.rewound")
