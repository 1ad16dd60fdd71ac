"""Commands that may use less memory than their jail, such as tests."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.interface import PIPE, LimitHit
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT, MIB, Limits

pytestmark = pytest.mark.anyio

LESS = replace(AGENT.limits, memory_bytes=100 * MIB, tmp_bytes=0, shm_bytes=0, home_bytes=0)
# Each process uses less than the limit; they keep what they have, so that the watcher sees it too.
SPREAD = (
    "import os, time\nfor _ in range(2): os.fork()\n"
    "x = bytearray(60 << 20)\nfor at in range(0, len(x), 4096): x[at] = 1\ntime.sleep(300)"
)


async def test_the_processes_of_a_command_share_its_memory(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        beside = await jail.spawn(["cat"], stdin=PIPE)
        assert beside.stdin is not None and beside.stdout is not None
        ran = await jail.run(["python3", "-c", f"{SPREAD}"], limits=LESS, timeout_s=120)
        await beside.stdin.write(b"on\n")
        assert await beside.stdout.read() == b"on\n"
        await beside.kill()
        beside.close()
        again = await jail.run(["echo", "again"], limits=LESS)
        unlimited = await jail.run(["python3", "-c", "print(len(bytearray(300 << 20)))"])
    assert ran.limit_hit == LimitHit("memory_bytes", "100 MiB")
    assert (again.stdout, again.limit_hit) == (b"again\n", None)
    assert (unlimited.stdout, unlimited.limit_hit) == (b"314572800\n", None)


async def test_a_cgroup_counts_from_the_first_instruction(workspace: Path) -> None:
    """A command that allocates all at once never has more."""
    program = "x = bytearray(250 << 20); print(len(x))"
    async with open_jail(workspace) as jail:
        if not jail._meter.has_cgroup:
            pytest.skip("no cgroups for this user: the kernel does not say that it refused memory")
        ran = [await jail.run(["python3", "-c", program], limits=LESS) for _ in range(5)]
        removed = [each.directory for each in jail._meter._group._commands.values()]  # type: ignore[union-attr]
    assert [(each.stdout, each.limit_hit) for each in ran] == [(b"", LimitHit("memory_bytes", "100 MiB"))] * 5
    assert not any(directory.parent.exists() for directory in removed)


async def test_the_memory_of_the_jail_is_named_where_a_cgroup_enforces_it(workspace: Path) -> None:
    """A command below its own limit, in a jail that has none left."""
    limits = Limits(memory_bytes=220 * MIB, tmp_bytes=90 * MIB, shm_bytes=1 * MIB, home_bytes=1 * MIB)
    less = replace(LESS, memory_bytes=200 * MIB)
    eat = "x = []\nwhile True: x.append(bytearray(1 << 20))"
    async with open_jail(workspace, replace(AGENT, limits=limits)) as jail:
        if not jail._meter.has_cgroup:
            pytest.skip("no cgroups for this user: the kernel does not say that it refused memory")
        await jail.run(["/bin/sh", "-c", "head -c 80000000 /dev/zero > /tmp/a"])
        ran = await jail.run(["python3", "-c", eat], limits=less, timeout_s=120)
    assert ran.limit_hit == LimitHit("memory_bytes", "220 MiB")


REAL_TIME = """
import asyncio, os, sys
from pathlib import Path
from hutch.jail.jail_startup import open_jail
async def main():
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))
    async with open_jail(Path(sys.argv[1])) as jail:
        ran = await jail.run(["python3", "-c", "import os; print(os.sched_getscheduler(0))"])
    print(ran.stdout.decode(), end="")
asyncio.run(main())
"""


def test_a_jail_of_a_real_time_process_is_scheduled_like_others(workspace: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has real-time priority")
    ran = subprocess.run([sys.executable, "-c", REAL_TIME, workspace], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == (f"{os.SCHED_OTHER}\n", "")
