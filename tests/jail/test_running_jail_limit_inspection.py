"""An inspection finds the commands that use too much memory, and ends no others."""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.jail.command_process import Command
from hutch.jail.interface import PIPE, LimitHit
from hutch.jail.jail_processes import members, number_inside
from hutch.jail.jail_startup import Jailed
from hutch.jail.limits.exceeded_limit_inspection import Inspector, commands_to_end
from hutch.jail.limits.limit_hit_attribution import HitBy
from hutch.jail.policy import MIB, Limits

pytestmark = pytest.mark.anyio

# Four processes: without the biggest of them there is still too much.
HOLD = (
    "import os, time\nfor _ in range(2): os.fork()\nx = b'x' * (40 << 20)\n"
    "print(1, flush=True)\ntime.sleep(500)"
)
SMALL = Limits(memory_bytes=100 * MIB, tmp_bytes=20 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB)


@asynccontextmanager
async def two_commands(jail: Jailed) -> AsyncIterator[tuple[Command, Command]]:
    """One whose four processes use 160 MiB together, and one that answers a line."""
    small = await jail.spawn(["cat"], stdin=PIPE)
    await small.wait_started()
    big = await jail.spawn(["python3", "-c", HOLD])
    assert big.stdout is not None
    said = b""
    while said != b"1\n" * 4:
        said += await big.stdout.read()
    yield big, small
    for command in (big, small):
        await command.kill()
        command.close()


async def answers(command: Command) -> bool:
    assert command.stdin is not None and command.stdout is not None
    await command.stdin.write(b"on\n")
    return await command.stdout.read() == b"on\n"


def host_number(jail: Jailed, reaper: int) -> int:
    (found,) = {each.reaper for each in members(jail.warden_pid) if number_inside(each.reaper) == reaper}
    return found


def test_as_many_commands_are_ended_as_necessary() -> None:
    used_now = {1: 10, 2: 50, 3: 30}
    assert commands_to_end(used_now, 40) == {2}
    assert commands_to_end(used_now, 50) == {2}
    assert commands_to_end(used_now, 51) == {2, 3}
    assert commands_to_end(used_now, 90) == {1, 2, 3}
    assert commands_to_end(used_now, 91) == frozenset()  # something else holds it
    assert commands_to_end({}, 1) == frozenset()


async def test_an_inspection_kills_the_command_with_too_much_memory_and_no_other(
    jail: Jailed, workspace: Path
) -> None:
    async with two_commands(jail) as (big, small):
        directory = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        inspector = Inspector(SMALL, None, warden=jail.warden_pid, workspace=directory)
        try:
            is_over, _ = await asyncio.to_thread(inspector.inspect)
        finally:
            inspector.close()
        assert (is_over, inspector.hits.noted) == (
            True,
            [(LimitHit("memory_bytes", "100 MiB"), HitBy(frozenset({big.reaper})))],
        )
        assert {number_inside(pid) for pid in inspector.reapers_to_end} == {big.reaper}
        async with asyncio.timeout(60):
            await big.wait_gone()
        assert await answers(small)


async def test_ending_commands_spares_others_and_frees_memory_for_the_next(jail: Jailed) -> None:
    async with two_commands(jail) as (big, small):
        assert await jail._end_commands(frozenset({host_number(jail, big.reaper)})) == "ended"
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"
        assert big.is_gone
        assert await answers(small)


async def test_the_jail_is_cleared_when_all_commands_must_end(jail: Jailed) -> None:
    async with two_commands(jail) as (big, small):
        both = frozenset(host_number(jail, each.reaper) for each in (big, small))
        assert await jail._end_commands(both) == "all"
        assert await answers(small)
        assert not big.is_gone


async def test_a_command_that_ended_meanwhile_ends_no_other_unless_it_is_missed_again(jail: Jailed) -> None:
    watch = jail._meter.watch
    assert watch is not None
    async with two_commands(jail) as (big, small):
        of_no_command = frozenset({os.getpid()})
        await watch._end_or_clear(of_no_command)
        assert await answers(small)
        assert not big.is_gone
        await watch._end_or_clear(of_no_command)
        async with asyncio.timeout(60):
            await big.wait_gone()
            await small.wait_gone()
