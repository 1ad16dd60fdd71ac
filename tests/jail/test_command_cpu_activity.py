"""A clock says whether the processes of a command have run."""

import asyncio
from pathlib import Path

import pytest

from hutch.jail.command_cpu_activity import RunClock
from hutch.jail.command_process import Command
from hutch.jail.interface import PIPE
from hutch.jail.jail_startup import Jailed
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

THREADS = """
import sys, threading
def wait():
    sys.stdin.readline()
    threading.Thread(target=open, args=("made", "w")).start()
    threading.Event().wait()
threading.Thread(target=wait).start()
threading.Event().wait()
"""


async def waits(clock: RunClock) -> None:
    """Wait until the processes wait."""
    async with asyncio.timeout(DEADLINE_S):
        while clock.has_run():  # noqa: ASYNC110 (the kernel sends no notification)
            await asyncio.sleep(0.02)


async def type_line(command: Command) -> None:
    assert command.stdin is not None
    await command.stdin.write(b"go\n")


async def made(workspace: Path) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while not (workspace / "made").exists():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "argv",
    [
        ["sh", "-c", "read x; echo > made; read x"],
        ["sh", "-c", "exec 3<&0; (read x; echo > made; read x) <&3 & wait"],
        ["setsid", "sh", "-c", "sh -c 'read x; touch made; read x'"],
        ["python3", "-c", THREADS],
    ],
    ids=["a command", "a job", "another session", "a thread of a thread"],
)
async def test_a_command_has_run_only_if_one_of_its_processes_has(
    jail: Jailed, workspace: Path, argv: list[str]
) -> None:
    command = await jail.spawn(argv, stdin=PIPE)
    clock = RunClock(lambda: [command])
    assert clock.has_run()
    await waits(clock)
    assert not clock.has_run()
    await type_line(command)
    await made(workspace)
    assert clock.has_run()
    await waits(clock)


async def test_a_command_that_computes_has_always_run(jail: Jailed) -> None:
    command = await jail.spawn(["sh", "-c", "while :; do :; done"])
    await command.wait_started()
    clock = RunClock(lambda: [command])
    assert all(clock.has_run() for _ in range(50))


async def test_a_new_or_ended_command_has_run(jail: Jailed) -> None:
    first = await jail.spawn(["sleep", "1000"])
    commands = [first]
    clock = RunClock(lambda: commands)
    await waits(clock)
    commands.append(await jail.spawn(["sleep", "1000"]))
    assert clock.has_run()
    await waits(clock)
    await first.kill()
    assert clock.has_run()
    commands.clear()
    assert clock.has_run()
    assert clock.has_run()  # nothing is known of it


async def test_a_command_with_too_many_threads_has_always_run(jail: Jailed) -> None:
    many = "for i in $(seq 70); do sleep 1000 & done; wait"
    command = await jail.spawn(["sh", "-c", many])
    clock = RunClock(lambda: [command])
    followed = await jail.spawn(["sh", "-c", many.replace("70", "20")])
    await waits(RunClock(lambda: [followed]))
    assert all(clock.has_run() for _ in range(50))


async def test_of_jobs_the_shell_itself_does_not_count(jail: Jailed, workspace: Path) -> None:
    """The shell reads and runs lines; its job waits for a file."""
    command = await jail.spawn(["sh"], stdin=PIPE)
    assert command.stdin is not None
    await command.stdin.write(b"mkfifo f; (read x < f; echo $x > by_job; sleep 1000) & touch made\n")
    await made(workspace)
    jobs, whole = RunClock(lambda: [command], jobs_only=True), RunClock(lambda: [command])
    await waits(jobs)
    await waits(whole)
    (workspace / "made").unlink()
    await command.stdin.write(b"touch made\n")
    await made(workspace)
    assert whole.has_run() and not jobs.has_run()
    await waits(whole)
    (workspace / "made").unlink()
    await command.stdin.write(b"echo go > f; touch made\n")
    await made(workspace)
    assert jobs.has_run()


async def test_a_job_that_the_shell_started_later_counts_when_jobs_are_found_anew(
    jail: Jailed, workspace: Path
) -> None:
    command = await jail.spawn(["sh"], stdin=PIPE)
    assert command.stdin is not None
    await command.stdin.write(b"mkfifo f; sleep 1000 & touch made\n")
    await made(workspace)
    jobs = RunClock(lambda: [command], jobs_only=True)
    await waits(jobs)
    (workspace / "made").unlink()
    await command.stdin.write(b"(read x < f; touch made; sleep 1000) &\n")
    await command.stdin.write(b"echo go > f; until test -e made; do sleep 0.02; done; mkfifo g; read x < g\n")
    await made(workspace)
    assert not jobs.has_run()
    jobs.renew(has_run=False)
    assert not jobs.has_run()
    await waits(jobs)
    jobs.renew(has_run=True)
    assert jobs.has_run()
    await waits(jobs)
    await type_line(command)


async def test_a_shell_without_jobs_has_run_none(jail: Jailed, workspace: Path) -> None:
    command = await jail.spawn(["sh"], stdin=PIPE)
    assert command.stdin is not None
    jobs = RunClock(lambda: [command], jobs_only=True)
    await command.wait_started()
    await waits(jobs)
    await command.stdin.write(b"touch made\n")
    await made(workspace)
    assert not jobs.has_run()
