"""Processes that an ended command left running are ended by its id, even when no process can be started."""

import asyncio
from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached
from hutch.jail import open_shell
from hutch.jail.policy import Limits, Policy
from hutch.jail.shell.shell import Shell
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


async def count_sleeps(shell: Shell) -> int:
    found = (await shell.run("grep -ls '^sleep' /proc/[0-9]*/cmdline | wc -l")).stdout
    return int(found)


async def until_sleeps(shell: Shell, expected: int) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while await count_sleeps(shell) != expected:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("number", [15, 9])
async def test_only_the_processes_of_that_command_are_ended(workspace: Path, number: int) -> None:
    async with open_shell("test", workspace=workspace) as shell:
        first = await shell.run("sleep 600 &")
        second = await shell.run("(sleep 600; sleep 600) & sleep 600 &")
        assert first.id and second.id
        await until_sleeps(shell, 3)
        await shell.background.get(second.id).signal(number)
        await until_sleeps(shell, 1)
        assert (await shell.run("echo $$")).restarted is False
        await shell.background.get(first.id).signal(number)
        await until_sleeps(shell, 0)
        await shell.background.get(first.id).signal(number)  # there are none any more


async def test_a_jail_full_of_processes_is_usable_again_after_a_kill(workspace: Path) -> None:
    policy = Policy(limits=Limits(processes=60))
    async with open_shell("test", workspace=workspace, policy=policy, shell="/bin/sh") as shell:
        await shell.run("cd /tmp; export E=1")
        left = await shell.run("for i in $(seq 200); do sleep 600 & done")
        assert left.id and left.limit_hit and left.limit_hit.limit == "processes", left
        await shell.background.get(left.id).signal(9)
        ran = await shell.run("pwd; echo $E; /bin/echo works")
        assert ran.stdout == "/tmp\n1\nworks\n", ran


async def test_so_many_processes_get_no_other_signal(workspace: Path) -> None:
    async with open_shell("test", workspace=workspace) as shell:
        left = await shell.run("for i in $(seq 80); do sleep 600 & done")
        assert left.id
        with pytest.raises(LimitReached, match="Send KILL instead"):
            await shell.background.get(left.id).signal(15)
        await shell.background.get(left.id).signal(9)
        await until_sleeps(shell, 0)
