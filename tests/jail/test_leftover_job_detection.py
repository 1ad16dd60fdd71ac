"""Jobs that commands leave running, in shells and in terminals."""

import asyncio
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hutch.jail import open_shell
from hutch.jail.jail_startup import Jailed
from hutch.jail.leftover_job_detection import has_jobs
from hutch.jail.shared_terminal import open_terminal
from hutch.jail.shell.command_results_and_events import JobsDetached, JobsEnded, ShellEvent
from hutch.jail.shell.shell import Shell
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

WAIT = "until test -e go; do sleep 0.02; done"
REDIRECTED = 'until test "$(readlink /proc/$!/fd/2)" = /dev/null; do :; done'  # it has the pipes at first


async def wait_for(is_so: Callable[[], bool]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not is_so():  # noqa: ASYNC110 (the kernel sends no notification)
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("program", ["/bin/sh", "/bin/bash"])
@pytest.mark.parametrize(
    "job",
    [
        f"({WAIT}) &",
        f"setsid sh -c '{WAIT}' &",
        f"nohup sh -c '{WAIT}' >/dev/null 2>&1 & {REDIRECTED}",
        f"setsid sh -c '({WAIT}) & exit'; true",
        f"({WAIT}) & exit 3",
        f"exec sh -c '({WAIT}) & exit 3'",
    ],
)
async def test_a_shell_reports_its_jobs_until_they_end(workspace: Path, program: str, job: str) -> None:
    events: list[ShellEvent] = []
    async with open_shell("test", workspace=workspace, shell=program, on_event=events.append) as shell:
        await shell.run("true")
        assert not _about_jobs(events)
        await shell.run(job)
        [left] = _about_jobs(events)
        assert left == JobsDetached("main", job, id=None if REDIRECTED in job else "bg_1")
        await shell.run("true")
        (workspace / "go").touch()
        ended = [JobsEnded("main", "bg_1")] if isinstance(left, JobsDetached) and left.id else []
        await wait_for(lambda: set(_about_jobs(events)) == {left, *ended, JobsEnded("main")})


def _stat(pid: int, parent: int, state: str) -> str:
    return " ".join(map(str, [pid, "(sh)", state, parent, pid, pid, 0, -1, *[0] * 14]))


def _write_process(proc: Path, pid: int, parent: int, state: str, children: str = "") -> None:
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True, exist_ok=True)
    (proc / str(pid) / "stat").write_text(_stat(pid, parent, state))
    (task / "children").write_text(children)


@pytest.mark.parametrize("state", ["S", "Z"])
def test_a_job_is_found_while_its_parent_ends(tmp_path: Path, state: str) -> None:
    """The shell ends after the reaper's children were read and before its own are."""
    reaper, shell, job = 2, 3, 4
    _write_process(tmp_path, reaper, 1, "S", f"{shell}")
    _write_process(tmp_path, shell, reaper, state)
    own = tmp_path / f"{shell}/task/{shell}/children"
    own.unlink()
    os.mkfifo(own)  # a read of it waits until the shell has ended

    def end_shell() -> None:
        with own.open("w"):
            _write_process(tmp_path, job, reaper, "S")
            (tmp_path / f"{reaper}/task/{reaper}/children").write_text(f"{job} {shell}")
            (tmp_path / f"{shell}/stat").write_text(_stat(shell, reaper, "Z"))
            own.unlink()
            own.touch()

    ending = threading.Thread(target=end_shell)
    ending.start()
    proc = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    assert has_jobs(proc, reaper, shell)
    ending.join()
    os.close(proc)


def _about_jobs(events: list[ShellEvent]) -> list[ShellEvent]:
    return [event for event in events if isinstance(event, JobsDetached | JobsEnded)]


async def test_a_command_in_the_background_is_no_job(workspace: Path) -> None:
    events: list[ShellEvent] = []
    async with open_shell("test", workspace=workspace, on_event=events.append) as shell:
        ran = await shell.run(WAIT, yield_s=0.1)
        await _other(shell)
        (workspace / "go").touch()
        await shell.background.get(ran.id or "").wait(DEADLINE_S)
        assert not _about_jobs(events)


async def _other(shell: Shell) -> None:
    assert (await shell.run("sleep 0.1 | cat; false & wait; true")).exit_code == 0


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        (b"PS1=; echo re''ady\n", False),
        (b"PS1=; sleep 100 & echo re''ady\n", True),
        (b"PS1=; set +m; sleep 100 & echo re''ady\n", True),
        (b"PS1=; setsid -f sleep 100; echo re''ady\n", True),
        (b"PS1=; bash --norc\nPS1=; echo re''ady\n", False),
        (b"PS1=; bash --norc\nPS1=; sleep 100 & echo re''ady\n", True),
        (b"PS1=; echo re''ady; cat\n", False),
        (b"PS1=; timeout 100 bash --norc -c 'echo re''ady; cat'\n", False),
    ],
)
async def test_a_terminal_has_jobs_besides_its_foreground(jail: Jailed, typed: bytes, expected: bool) -> None:
    async with open_terminal(jail, ["/bin/bash", "--norc"]) as terminal:
        reader = terminal.attach()
        await terminal.write(typed)
        seen = b""
        async with asyncio.timeout(DEADLINE_S):
            async for _, data in reader:
                seen += data
                if b"ready" in seen:
                    break
        await wait_for(lambda: terminal.has_jobs is expected)


async def test_more_processes_than_are_inspected_count_as_jobs(jail: Jailed) -> None:
    process = await jail.spawn(["sh", "-c", "for n in $(seq 100); do sleep 100 & done; echo x; wait"])
    assert process.stdout is not None and await process.stdout.read() == b"x\n"
    await wait_for(lambda: process.has_jobs)  # output may come before the message that it has started
    await process.kill()
    assert not process.has_jobs
    process.close()
