"""When memory runs out, the jail's first process is killed last."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import HutchError
from hutch.jail.jail_processes import members
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.limits.limit_enforcement import make_group
from hutch.jail.limits.oom_scores import prefer_commands, score_increase
from hutch.jail.policy import AGENT, MIB, Limits
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio

SCORE = ["cat", "/proc/self/oom_score_adj"]
SMALL = Limits(memory_bytes=96 * MIB, tmp_bytes=8 * MIB, shm_bytes=8 * MIB, home_bytes=8 * MIB)
GROW = ["/usr/bin/python3", "-c", "block = bytearray(200 << 20)"]


def score(pid: int) -> int:
    return int(Path(f"/proc/{pid}/oom_score_adj").read_text())


@pytest.mark.skipif(os.geteuid() != 0, reason="the warden's score is root's to give")
async def test_every_command_is_killed_before_the_warden(jail: Jailed) -> None:
    before = score(os.getpid())
    together = await asyncio.gather(*(jail.run(SCORE) for _ in range(3)))  # each with a reaper of its own
    after = await jail.run(SCORE)
    # Thousandths of 2 GiB; twice as much if the host looked before the command did.
    increases = {int(ran.stdout) - max(before, 0) for ran in (*together, after)}
    assert increases <= {16, 32}
    async with asyncio.timeout(DEADLINE_S):  # it takes a command's score while it forks the next reaper
        while score(jail.warden_pid) != before:  # noqa: ASYNC110 (the kernel sends no notification)
            await asyncio.sleep(0.01)


@pytest.mark.skipif(os.geteuid() != 0, reason="a command's score is root's to raise")
async def test_commands_are_killed_before_their_reapers_too(jail: Jailed) -> None:
    if not jail._meter.has_cgroup:
        pytest.skip("no cgroup to be had here")
    before = score(os.getpid())
    process = await jail.spawn(["sh", "-c", "sleep 500 & sleep 500"])
    async with asyncio.timeout(60):
        while True:
            found = members(jail.warden_pid)
            scores = [score(each.pid) for each in found if not each.trusted]
            if len(scores) == 3 and set(scores) == {max(before, 0) + 32}:
                break
            await asyncio.sleep(0.01)
    assert {score(each.pid) for each in found if each.trusted} == {max(before, 0) + 16}
    await process.kill()
    process.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may")
async def test_without_the_right_nothing_changes(jail: Jailed) -> None:
    assert prefer_commands(jail.warden_pid, memory_bytes=MIB) is None
    assert int((await jail.run(SCORE)).stdout) == score(os.getpid())


def test_the_smaller_the_jail_the_more_a_score_must_be() -> None:
    assert [score_increase(size * MIB) for size in (32, 96, 2048, 65536)] == [500, 334, 16, 1]


async def test_a_jail_that_ended_because_memory_ran_out_says_so(workspace: Path) -> None:
    group = make_group(SMALL)
    if group is None:
        pytest.skip("no cgroup to be had here")
    group.remove()
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        assert (await jail.run(GROW)).limit_hit is not None
        os.kill(jail.warden_pid, signal.SIGKILL)
        with pytest.raises(HutchError, match="memory_bytes is 96 MiB"):
            for _ in range(100):
                await jail.run(["true"])
                await asyncio.sleep(0.01)
