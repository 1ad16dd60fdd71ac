"""Output of processes that a command left running: never in the result of another command."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.jail import open_shell
from hutch.jail.interface import StreamName
from hutch.jail.policy import Limits, Policy
from hutch.jail.shell.command_results_and_events import (
    CommandEnded,
    JobsDetached,
    JobsEnded,
    Result,
    ShellEvent,
)
from hutch.jail.shell.shell import MAX_LEFT, Shell
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

UNTIL_GO = "until test -e go; do sleep 0.02; done"


@pytest.fixture(params=["/bin/sh", "/bin/bash"])
async def shell(request: pytest.FixtureRequest, workspace: Path) -> AsyncIterator[Shell]:
    async with open_shell("jobs", workspace=workspace, shell=request.param) as opened:
        yield opened


def _count_pipes() -> int:
    """The number of pipes that this process has open."""
    found = 0
    for link in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # of the listing itself
            found += str(link.readlink()).startswith("pipe:")
    return found


class PrintedOutput:
    """The output of one command, also after its end."""

    def __init__(self) -> None:
        self.text: dict[StreamName, str] = {"stdout": "", "stderr": ""}
        self.ends: list[str | None] = []
        self.ended = asyncio.Event()

    def add(self, stream: StreamName, data: bytes) -> None:
        self.text[stream] += data.decode()

    def end(self, continues_as: str | None) -> None:
        self.ends.append(continues_as)
        if continues_as is None:
            self.ended.set()

    async def run(self, shell: Shell, command: str, yield_s: float | None = None) -> Result:
        return await shell.run(command, yield_s=yield_s, on_output=self.add, on_end=self.end)

    async def wait(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self.ended.wait()


@pytest.mark.parametrize(
    "command",
    [
        f"({UNTIL_GO}; echo late; echo wrong >&2) & echo now",
        f"setsid sh -c '{UNTIL_GO}; echo late; echo wrong >&2' & echo now",
        f"sh -c '({UNTIL_GO}; echo late; echo wrong >&2) &'; echo now",
        f"exec 3>&1; ({UNTIL_GO}; echo late; echo wrong >&2) & echo now; exec 3>&-",
        f"exec >/dev/null; exec >&2; ({UNTIL_GO}; echo late >&2; echo wrong >&2) & echo now",
        f"({UNTIL_GO}; echo late; echo wrong >&2) & echo now; exit 3",
    ],
)
async def test_a_jobs_output_goes_to_its_own_command_and_no_other(
    shell: Shell, workspace: Path, command: str
) -> None:
    first, second = PrintedOutput(), PrintedOutput()
    ran = await first.run(shell, command)
    assert "late" not in ran.stdout + ran.stderr and "now" in ran.stdout + ran.stderr
    assert ran.id == "bg_1" and not ran.running and "can be read as bg_1" in ran.note
    other = await second.run(shell, "touch go; echo other; sleep 0.3")
    await first.wait()
    assert (other.stdout, other.stderr, second.text["stdout"]) == ("other\n", "", "other\n")
    output = first.text["stdout"] + first.text["stderr"]
    assert "late\n" in output and "wrong\n" in output
    assert first.ends == ["bg_1", None] and second.ends == [None]
    read = shell.background.get("bg_1").read().data
    assert b"late\n" in read and b"wrong\n" in read and b"now" not in read


async def test_a_shell_keeps_its_state_and_its_jobs_when_it_gets_new_pipes(shell: Shell) -> None:
    await shell.run("cd /tmp; v=1; export W=2; f() { echo f; }; false; sleep 100 & false")
    ran = await shell.run("echo $? $PWD $v $W; f; kill $! && wait $!; echo $?; echo bad >&2")
    assert (ran.stdout, ran.restarted) == ("1 /tmp 1 2\nf\n143\n", False)
    assert "bad\n" in ran.stderr


@pytest.mark.parametrize("options", ["set -e", "set -u", "set -x", "set -v", "set -C", "set -f"])
async def test_options_of_a_shell_do_not_keep_it_from_new_pipes(
    shell: Shell, workspace: Path, options: str
) -> None:
    first = PrintedOutput()
    ran = await first.run(shell, f"{options}; ({UNTIL_GO}; echo late) & echo now")
    other = await shell.run("touch go; echo other; sleep 0.2")
    await first.wait()
    assert not ran.restarted and "late" in first.text["stdout"] and other.stdout == "other\n"


@pytest.mark.parametrize(
    "disguise",
    ["exec() { :; }; command() { :; }", "exec() { :; }; readonly -f exec", "enable -n exec"],
)
async def test_a_shell_that_refuses_new_pipes_is_replaced(workspace: Path, disguise: str) -> None:
    first = PrintedOutput()
    async with open_shell("jobs", workspace=workspace, shell="/bin/bash") as shell:
        ran = await first.run(shell, f"{disguise}; ({UNTIL_GO}; echo late) & echo now")
        other = await shell.run("touch go; echo other; sleep 0.2")
        await first.wait()
    assert other.stdout == "other\n" and first.text["stdout"] == "now\nlate\n"
    if ran.restarted:
        assert "could not be separated" in ran.note


async def test_a_job_that_cannot_print_has_an_id_for_signals_only(workspace: Path) -> None:
    events: list[ShellEvent] = []
    async with open_shell("jobs", workspace=workspace, on_event=events.append) as shell:
        # A new process can print until it has redirected its output.
        job = "(exec >/dev/null 2>&1; : >redirected; exec sleep 100) &"
        command = f"{job} until [ -e redirected ]; do sleep 0.01; done"
        ran = await shell.run(command)
        assert ran.id == "bg_1" and "by a signal to bg_1" in ran.note and "output" not in ran.note
        assert JobsDetached("main", command) in events  # without an id: no output follows
        # A job that was there before is not a reason for new pipes.
        process = shell._process
        assert process is not None
        pipes = process.output
        await shell.run("echo more")
        assert process.output is pipes


async def test_jobs_of_a_command_in_the_background_print_under_its_id(workspace: Path) -> None:
    events: list[ShellEvent] = []
    output = PrintedOutput()
    async with open_shell("jobs", workspace=workspace, on_event=events.append) as shell:
        until_end = UNTIL_GO.replace("go", "end")
        ran = await output.run(shell, f"({UNTIL_GO}; echo late) & {until_end}; echo end", yield_s=0.05)
        assert ran.running and ran.id == "bg_1"
        (workspace / "end").touch()
        await shell.background.get("bg_1").wait(DEADLINE_S)
        await shell.run("touch go")
        await output.wait()
        assert output.text["stdout"] == "end\nlate\n" and output.ends == ["bg_1", "bg_1", None]
        assert shell.background.get("bg_1").read().data == b"end\nlate\n"
        kinds = [event for event in events if getattr(event, "id", None) == "bg_1"]
        detached, ended, gone = kinds[1:]
        assert isinstance(detached, JobsDetached) and isinstance(ended, CommandEnded)
        assert gone == JobsEnded("main", "bg_1")


async def test_jobs_beside_a_yielded_command_print_under_their_own_id(workspace: Path) -> None:
    job, long = PrintedOutput(), PrintedOutput()
    async with open_shell("jobs", workspace=workspace) as shell:
        await job.run(shell, f"({UNTIL_GO}; echo job) &")
        await long.run(shell, f"{UNTIL_GO}; echo long", yield_s=0.05)
        (workspace / "go").touch()
        await job.wait()
        await long.wait()
    assert (job.text["stdout"], long.text["stdout"]) == ("job\n", "long\n")


async def test_a_flood_of_a_job_is_bounded_in_memory(workspace: Path) -> None:
    policy = Policy(limits=Limits(output_bytes=100_000))
    async with open_shell("jobs", workspace=workspace, policy=policy) as shell:
        first = PrintedOutput()
        await first.run(shell, f"({UNTIL_GO}; head -c 900000 /dev/zero) &")
        (workspace / "go").touch()
        await first.wait()
        read = shell.background.get("bg_1").read()
        assert (len(read.data), read.end, read.start) == (100_000, 900_000, 800_000)
        assert not (await shell.run("true")).truncated


async def test_only_so_many_commands_can_leave_jobs_that_print(workspace: Path) -> None:
    """Each holds two descriptors of the host."""
    async with open_shell("jobs", workspace=workspace) as shell:
        first = PrintedOutput()
        await first.run(shell, f"({UNTIL_GO}; echo late; touch not-killed) &")
        before = _count_pipes()
        for _ in range(MAX_LEFT + 10):
            await shell.run("sleep 100 &")
        assert _count_pipes() <= before + 2 * MAX_LEFT + 8
        await first.wait()
        (workspace / "go").touch()
        assert (await shell.run("echo on")).stdout == "on\n"


async def test_a_caller_that_is_cancelled_at_the_end_leaves_the_shell_usable(workspace: Path) -> None:
    async with open_shell("jobs", workspace=workspace) as shell:
        for delay_ms in range(0, 60, 6):
            output = PrintedOutput()
            running = asyncio.ensure_future(output.run(shell, "(sleep 0.2; echo late) &"))
            await asyncio.sleep(delay_ms / 1000)
            running.cancel()
            await asyncio.wait([running])
            assert (await shell.run("echo on; sleep 0.01")).stdout == "on\n"


async def test_descriptors_are_released_when_jobs_have_ended(workspace: Path) -> None:
    async with open_shell("jobs", workspace=workspace) as shell:
        await shell.run("true")
        before = _count_pipes()
        for _ in range(20):
            output = PrintedOutput()
            await output.run(shell, "(sleep 0.05; echo late) &")
            await output.wait()
        assert _count_pipes() <= before + 2
