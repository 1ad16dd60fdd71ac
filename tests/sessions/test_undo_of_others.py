"""An undo of a run removes nothing that people made, whenever and however they made it."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from hutch.domain import inputs
from hutch.domain.errors import HutchError, WorkWouldBeLost
from hutch.sessions import file_and_command_requests as requests
from tests.sessions.session_server import call, cassette, serving, until
from tests.sessions.undo_setup import AGENTS, IGNORING, JOB, LET_WRITE, Stage
from tests.workspace.full_disk import files_no_longer_than

pytestmark = pytest.mark.anyio


async def refused(stage: Stage) -> Sequence[str]:
    with pytest.raises(WorkWouldBeLost) as error:
        await stage.give(inputs.Undo())
    return error.value.paths


async def test_what_a_persons_command_changes_while_the_agent_works_stays(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path)
        await stage.run("echo mine > mine.txt; echo '# mine' >> slug.py; ls > /dev/null")
        await stage.finish()
        undone = await stage.undo()
        assert undone.files == tuple(AGENTS)
        assert await stage.files() == ["mine.txt", "slug.py"]
        assert (await stage.read("slug.py") or "").endswith("# mine\n")


async def test_what_a_command_in_the_background_changes_stays(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path)
        command = "until [ -e /tmp/write ]; do sleep 0.05; done; echo mine > mine.txt; touch /tmp/written"
        asked = requests.RunCommand(command, yield_s=0.1)
        assert (await server.host.call(stage.id, asked, by="usr_x")).running
        await stage.run("touch /tmp/write; until [ -e /tmp/written ]; do sleep 0.05; done", "2")
        await stage.finish()
        await stage.undo()
        assert await stage.files() == ["mine.txt", "slug.py"]


async def test_changes_typed_in_a_terminal_stay(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path)
        await stage.type_in("echo mine > mine.txt; echo do''ne\n", "done")
        await stage.finish()
        await stage.undo(inputs.Undo(keep=True))  # late.txt may be of the terminal, where a command may run
        assert set(await stage.files()) - {"late.txt"} == {"mine.txt", "slug.py"}


async def test_files_restored_by_a_user_while_the_agent_works_stay(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path, {"old.txt": "mine\n"})
        taken = await server.host.call(stage.id, requests.TakeSnapshot("mine"), by="usr_x")
        await server.host.call(stage.id, requests.DeleteFile("old.txt"), by="usr_x")
        await server.host.call(stage.id, requests.RestoreSnapshot(taken.id, "old.txt"), by="usr_x")
        await stage.finish()
        await stage.undo()
        assert await stage.files() == ["old.txt"]


@pytest.mark.parametrize("shell", ["main", "agent"])
async def test_commands_before_and_during_the_run_are_the_persons(tmp_path: Path, shell: str) -> None:
    script = [call("bash", command="echo agent > agents.txt"), call("finish", summary="Done.")]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.write("mine.txt", "mine")
        await stage.run("echo too > too.txt; x=1", shell)
        await stage.prompt()
        assert (await stage.undo()).files == ("agents.txt",)
        assert await stage.files() == ["mine.txt", "too.txt"]


@pytest.mark.parametrize(
    "command", [f"({JOB}) &", f"setsid sh -c '{JOB}' &", f"nohup sh -c '{JOB}' >/dev/null 2>&1 &"]
)
async def test_what_a_command_leaves_running_changes_later_stays(tmp_path: Path, command: str) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path)
        await stage.run(command)
        await stage.let_write()
        await stage.finish()
        await stage.undo(inputs.Undo(keep=True))  # late.txt may be the job's, which perhaps still runs
        assert set(await stage.files()) - {"late.txt"} == {"go", "mine.txt", "slug.py"}


async def test_a_file_that_a_job_and_the_agent_may_have_written_is_named(tmp_path: Path) -> None:
    script = [call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"), {"text": "Done."}]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.run(f"({JOB}) &")
        await stage.prompt()
        assert "mine.txt" in await refused(stage)
        await stage.undo(inputs.Undo(keep=True))
        assert "mine.txt" in await stage.files()


async def test_a_job_of_a_command_that_could_not_be_recorded_is_named(tmp_path: Path) -> None:
    script = [call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"), {"text": "Done."}]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        running = asyncio.ensure_future(stage.run(f"until [ -e begin ]; do sleep 0.05; done; ({JOB}) &"))
        await until(server, stage.id, "command.started")
        wal = tmp_path / "home" / "data" / "hutch.db-wal"
        with files_no_longer_than(wal.stat().st_size):
            async with server.host.sandbox(stage.id) as sandbox:
                (sandbox.workspace.place.directory / "begin").touch()
            with pytest.raises(HutchError, match="could not be recorded"):
                await running
        await stage.prompt()
        assert "mine.txt" in await refused(stage)


async def test_a_job_that_ended_before_the_run_is_in_nobodys_way(tmp_path: Path) -> None:
    script = [call("bash", command="echo agent > agents.txt"), {"text": "Done."}]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.run(f"({JOB}) &")
        await until(server, stage.id, "jobs.detached")
        await stage.run(LET_WRITE, "2")
        first = await until(server, stage.id, "jobs.ended")
        await until(server, stage.id, "jobs.ended", after=len(first))  # of their output, and of all jobs
        await stage.prompt()
        assert (await stage.undo()).files == ("agents.txt",)
        assert await stage.files() == ["go", "mine.txt"]


@pytest.mark.parametrize("bash", [{"command": f"({JOB}) &"}, {"command": JOB, "yield_s": 0.1}])
async def test_a_job_of_an_earlier_run_is_named(tmp_path: Path, bash: dict[str, Any]) -> None:
    script = [
        call("bash", **bash),
        {"text": "Begun."},
        call("bash", command=f"{LET_WRITE}; echo agent > agents.txt"),
        {"text": "Done."},
    ]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.prompt()
        await stage.prompt()
        assert "mine.txt" in await refused(stage)


async def test_a_job_of_an_earlier_run_that_only_waits_is_in_nobodys_way(tmp_path: Path) -> None:
    script = [
        call("bash", command="sleep 1000 & echo begun"),
        call("bash", command="cat; sleep 1000", yield_s=0.1),
        {"text": "Begun."},
        call("bash", command="sleep 0.1; echo agent > agents.txt; sleep 0.1"),
        {"text": "Done."},
    ]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.prompt()
        await stage.prompt()
        assert (await stage.undo()).files == ("agents.txt",)


async def test_the_agents_own_jobs_do_not_hinder_an_undo(tmp_path: Path) -> None:
    script = [
        call("bash", command=f"({JOB}) &"),
        call("bash", command="echo agent > agents.txt; sleep 1", yield_s=0.1),
        call("bash", command=LET_WRITE),
        call("bash", command="echo agent > late.txt"),
        {"text": "Done."},
    ]
    async with serving(tmp_path / "home", model=cassette(tmp_path / "c.json", script)) as server:
        stage = await Stage.empty(server)
        await stage.prompt()
        await stage.undo()
        assert await stage.files() == []


AUTHOR = "export " + " ".join(
    f"GIT_{who}_{what}=a@example.org" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
)


@pytest.mark.parametrize(
    ("command", "check"),
    [
        ("git branch mine", "git rev-parse mine"),
        ("echo mine > m; git add m; git stash -q -- m", "git rev-parse refs/stash"),
        ("echo mine > .env; mkdir build; echo mine > build/log", "cat .env build/log"),
        ("mkdir -p empty/below", "ls -d empty/below"),
        ("git config user.name mine; git status > /dev/null", "git config user.name"),
        ("mkdir -p .git/hooks; echo mine > .git/hooks/post-commit", "cat .git/hooks/post-commit"),
        ("echo mine > mine.txt; git add mine.txt", "git diff --cached --name-only | grep mine"),
    ],
)
@pytest.mark.parametrize("when", ["during", "after"])
async def test_what_git_would_not_commit_stays_too(
    tmp_path: Path, when: str, command: str, check: str
) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.waiting(server, tmp_path, IGNORING)
        if when == "after":
            await stage.finish()
        await stage.run(f"{AUTHOR}; {command}")
        if when == "during":
            await stage.finish()
        undone = await stage.undo()
        assert undone.files == tuple(AGENTS)
        await stage.run(check)
        assert not set(AGENTS) & set(await stage.files())


async def test_an_undo_of_a_commit_names_files_staged_since(tmp_path: Path) -> None:
    commits = f"{AUTHOR}; echo agent > agents.txt; git add .; git commit -qm agent"
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, call("bash", command=commits))
        await stage.run("git status > /dev/null; git log --oneline | wc -l | grep -q 2")
        await stage.run("echo mine > mine.txt; git add mine.txt")
        assert await refused(stage) == (".git/index",)
        undone = await stage.undo(inputs.Undo(keep=True))
        assert undone.kept == (".git/index",)
        await stage.run(
            "git log --oneline | wc -l | grep -q 1; git diff --cached --name-only | grep mine.txt"
        )


async def test_an_undo_of_a_commit_takes_back_the_branch_and_what_was_staged(tmp_path: Path) -> None:
    commits = f"{AUTHOR}; echo agent > agents.txt; git add .; git commit -qm agent; git checkout -qb other"
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, call("bash", command=commits))
        await stage.run("git status > /dev/null")
        await stage.undo()
        await stage.run('test -z "$(git status --porcelain)" && git log --oneline | wc -l | grep -q 1')
        await stage.run("git branch --show-current | grep -q main && ! git rev-parse -q --verify other")


async def test_ignored_caches_do_not_hinder_an_undo(tmp_path: Path) -> None:
    """Test runs create these files; they are no user's work."""
    cache = "mkdir -p __pycache__; echo {} > __pycache__/a.pyc"
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(
            server, tmp_path, call("bash", command=cache.format("agent")), files=IGNORING
        )
        await stage.run(cache.format("mine"))
        await stage.undo()


@pytest.mark.parametrize(
    ("agents", "mine", "before"),
    [
        ("rm a; mkdir a; echo in > a/in", "echo mine >> a/in", {"a": "a\n"}),
        ("rm -r d; echo d > d", "echo mine >> d", {"d/a": "a\n"}),
    ],
)
async def test_discard_frees_the_place_of_a_file(
    tmp_path: Path, agents: str, mine: str, before: dict[str, str]
) -> None:
    async with serving(tmp_path / "home") as server:
        stage = await Stage.after_run(server, tmp_path, call("bash", command=agents), files=before)
        await stage.run(mine)
        assert len(await refused(stage)) == 2
        undone = await stage.undo(inputs.Undo(discard=True))
        assert (undone.kept, len(undone.discarded)) == ((), 2)
        [path] = before
        assert (await stage.files())[-1] == path and await stage.read(path) == before[path]


async def test_discard_removes_no_file_that_is_not_of_the_run(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as server:
        agents = call("bash", command="rm a; mkdir a; echo in > a/in")
        stage = await Stage.after_run(server, tmp_path, agents, files={"a": "a\n"})
        await stage.run("echo mine >> a/in; echo mine > a/mine")
        undone = await stage.undo(inputs.Undo(discard=True))
        assert (undone.kept, await stage.files()) == (("a",), ["a", "a/mine"])
