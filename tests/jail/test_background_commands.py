"""Commands that continue after their caller stopped waiting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.jail import open_shell
from hutch.jail.interface import PIPE
from hutch.jail.shell.background_commands import PRECEDING_BYTES
from hutch.jail.shell.command_results_and_events import CommandYielded, Result, ShellEvent
from hutch.jail.shell.shell import Shell
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["/bin/sh", "/bin/bash"])
async def shell(request: pytest.FixtureRequest, workspace: Path) -> AsyncIterator[Shell]:
    async with open_shell("test", workspace=workspace, shell=request.param) as opened:
        yield opened


async def test_a_slow_command_continues_and_the_shell_is_free(shell: Shell) -> None:
    await shell.run("cd /tmp; export E=1; v=1")
    ran = await shell.run("echo a; until test -e go; do sleep 0.02; done; echo $v; exit 3", yield_s=1)
    assert (ran.running, ran.id, ran.stdout, ran.exit_code) == (True, "bg_1", "a\n", None)
    assert (await shell.run("pwd; echo $E$v")).stdout == "/tmp\n1\n"
    command = shell.background.get("bg_1")
    assert command.read().data == b""  # the result contains it
    await shell.run("touch go")
    ended = await command.wait(DEADLINE_S)
    assert (ended.exit_code, ended.stdout, ended.running, ended.id) == (3, "a\n1\n", False, "bg_1")
    assert (command.read().data, command.read().data, command.read(offset=0).data) == (
        b"1\n",
        b"",
        b"a\n1\n",
    )
    [listed] = shell.background.list()
    assert (listed.id, listed.running, listed.exit_code, listed.cwd) == ("bg_1", False, 3, "/tmp")


async def test_a_fast_command_does_not(shell: Shell) -> None:
    ran = await shell.run("echo a", yield_s=5)
    assert (ran.running, ran.id, ran.stdout) == (False, None, "a\n")
    assert shell.background.list() == []


async def test_its_timeout_still_kills_it(shell: Shell) -> None:
    ran = await shell.run("setsid sleep 81 & sleep 81", yield_s=0.1, timeout_s=0.4)
    assert ran.id is not None
    ended = await shell.background.get(ran.id).wait(DEADLINE_S)
    assert (ended.timed_out, ended.running, ended.exit_code) == (True, False, None)
    assert (await shell.run("pgrep -fx 'sleep 81'")).stdout == ""


async def started(shell: Shell, words: str) -> None:
    """Wait until a program with these arguments runs in the jail."""
    async with asyncio.timeout(DEADLINE_S):
        while not (await shell.run(f"pgrep -fx '{words}'")).stdout:
            pass


async def test_it_can_be_written_to_signalled_and_killed(shell: Shell) -> None:
    ran = await shell.run("cat; echo end", yield_s=0.05, stdin=PIPE)
    command = shell.background.get(ran.id or "")
    await command.write(b"line\n")
    async with asyncio.timeout(DEADLINE_S):
        while not (printed := command.read().data):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert printed == b"line\n"
    command.close_stdin()
    assert (await command.wait(DEADLINE_S)).stdout == "line\nend\n"

    ran = await shell.run("sleep 82; echo no", yield_s=0.05)
    command = shell.background.get(ran.id or "")
    await started(shell, "sleep 82")  # an interrupt is lost on a shell that is about to start a program
    await command.signal(2)
    assert (await command.wait(DEADLINE_S)).exit_code == 130
    with pytest.raises(BadRequest, match="stdin=PIPE"):
        await command.write(b"x")

    ran = await shell.run("trap '' TERM INT; sleep 83", yield_s=0.05)
    command = shell.background.get(ran.id or "")
    await command.kill()
    assert not command.running and command.result().signal == 9
    assert (await shell.run("pgrep -f 'sleep 8[23]$'")).stdout == ""


@pytest.mark.parametrize(
    "command",
    [
        "while true; do sleep 1; done",
        "sleep 84 | cat; sleep 84; sleep 84; echo no",
        "sleep 84; (while true; do sleep 1; done); echo no",
        "(while true; do sleep 1; done) & while :; do :; done",
        "exec sleep 84",
        "f() { while true; do sleep 0.01; done; }; f; echo no",
    ],
)
@pytest.mark.parametrize("number", [15, 1])
async def test_a_signal_that_ends_programs_ends_the_command(shell: Shell, command: str, number: int) -> None:
    await shell.run("sleep 300 &")
    ran = await shell.run(command, yield_s=0.3)
    background = shell.background.get(ran.id or "")
    await background.signal(number)
    ended = await background.wait(DEADLINE_S)
    assert (ended.running, ended.signal, ended.exit_code) == (False, number, None)
    assert b"tcsetattr" not in background.read(offset=0).data and "no" not in ended.stdout
    # Jobs of another command continue; a bash that gets SIGHUP passes it to its jobs as well.
    hung_up = number == 1 and "bash" in shell.program and "exec" not in command
    left = "0\n" if hung_up else "1\n"
    async with asyncio.timeout(DEADLINE_S):  # a signal has been sent to each, and takes effect in a moment
        while (await shell.run("pgrep -fx 'sleep (1|84|0.01)'; pgrep -cfx 'sleep 300'")).stdout != left:
            pass


async def test_a_trap_decides_what_a_signal_does(shell: Shell) -> None:
    command = "trap 'sleep 0.1; echo cleaned; exit 5' TERM; sleep 85 & while :; do sleep 0.05; done"
    ran = await shell.run(command, yield_s=0.05)
    background = shell.background.get(ran.id or "")
    await started(shell, "sleep 85")
    await background.signal(15)
    ended = await background.wait(DEADLINE_S)
    assert (ended.exit_code, ended.stdout) == (5, "cleaned\n")


async def test_a_bash_that_forks_all_the_time_keeps_its_trap(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace, shell="/bin/bash") as shell:
        for _ in range(8):
            ran = await shell.run(
                "trap 'echo cleaned; exit 5' TERM; echo set; while :; do (:) | (:) | (:) | (:); done",
                yield_s=0.05,
            )
            background = shell.background.get(ran.id or "")
            async with asyncio.timeout(DEADLINE_S):
                while not background.read(offset=0).data:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            await background.signal(15)
            ended = await background.wait(DEADLINE_S)
            assert (ended.exit_code, ended.stdout) == (5, "set\ncleaned\n")


async def test_an_unknown_id_is_answered_with_the_known_ones(shell: Shell) -> None:
    with pytest.raises(NotFound, match="bg_9"):
        shell.background.get("bg_9")


async def test_only_the_end_of_long_output_is_buffered(shell: Shell) -> None:
    waits = "until test -e go; do sleep 0.02; done"
    ran = await shell.run(f"{waits}; head -c 3000000 /dev/zero; echo end", yield_s=0.05)
    command = shell.background.get(ran.id or "")
    await shell.run("touch go")
    await command.wait(DEADLINE_S)
    tape = command.read(offset=0)
    assert (tape.start, tape.end, tape.data[-4:]) == (3_000_004 - len(tape.data), 3_000_004, b"end\n")
    assert len(tape.data) == shell.jail.policy.limits.output_bytes
    assert len(tape.before) == PRECEDING_BYTES


async def test_preceding_output_is_included(shell: Shell) -> None:
    ran = await shell.run("printf 0123456789; sleep 60", yield_s=0.3)
    command = shell.background.get(ran.id or "")
    async with asyncio.timeout(DEADLINE_S):
        while len(command.read(offset=0).data) < 10:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    command.read()  # what was printed after the call had returned
    for offset in (0, 4, 10, 99):
        tape = command.read(offset=offset)
        assert (tape.before, tape.data) == (b"0123456789"[:offset], b"0123456789"[offset:])
    assert (command.read().before, command.read().data) == (b"0123456789", b"")
    await command.kill()


async def test_the_end_is_reported_and_nothing_outlives_the_jail(workspace: Path) -> None:
    ends: list[tuple[str, Result]] = []
    events: list[ShellEvent] = []
    first = "until test -e go; do sleep 0.02; done"
    async with open_shell("test", workspace=workspace, on_event=events.append) as shell:
        shell.background.on_end = lambda id_, result: ends.append((id_, result))
        await shell.run(first, yield_s=0.05)
        await shell.run("trap '' TERM; setsid sleep 8461 & sleep 8461", yield_s=0.05)
        (workspace / "go").touch()
        async with asyncio.timeout(DEADLINE_S):
            while not ends:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert [(id_, result.exit_code) for id_, result in ends] == [("bg_1", 0)]
    assert [id_ for id_, _ in ends] == ["bg_1", "bg_2"]
    assert CommandYielded("main", first, "bg_1") in events
    found = await asyncio.create_subprocess_exec("pgrep", "-fx", "sleep 8461", stdout=asyncio.subprocess.PIPE)
    assert (await found.communicate())[0] == b""


async def test_background_commands_can_be_iterated(shell: Shell) -> None:
    first = await shell.run("sleep 60", yield_s=0.1)
    second = await shell.run("sleep 60", yield_s=0.1)
    assert [entry.id for entry in shell.background] == [first.id, second.id]
    assert len(shell.background) == 2
    for entry in shell.background:
        await entry.kill()


async def test_of_commands_that_ended_long_ago_only_head_and_tail_are_retained(shell: Shell) -> None:
    for number in range(7):
        ran = await shell.run(
            f"until test -e go; do sleep 0.1; done; echo {number}; head -c 400000 /dev/zero; echo; echo last",
            yield_s=0.05,
        )
        assert ran.running
    await shell.run("touch go")
    commands = list(shell.background)
    for command in commands:
        await command.wait(DEADLINE_S)
    await shell.run("true")
    kept = [len(command.result().stdout_bytes) + len(command.read(offset=0).data) for command in commands]
    assert sum(size > 700_000 for size in kept) == 4
    assert sum(size < 50_000 for size in kept) == 3
    for number, command in enumerate(commands):
        result, tape = command.result(), command.read(offset=0)
        assert result.stdout_bytes.startswith(b"%d\n" % number) and result.stdout_bytes.endswith(b"\nlast\n")
        assert result.truncated == (len(result.stdout_bytes) < 400_000)
        assert (tape.end, tape.end - tape.start) == (400_008, len(tape.data))
        assert (result.exit_code, command.summary().running) == (0, False)
