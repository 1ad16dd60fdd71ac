"""The resources of a jail are counted once, wherever they are."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.interface import LimitHit
from hutch.jail.jail_processes import members, read
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.limits.resource_usage_without_cgroup import usage
from hutch.jail.policy import MIB, Limits, Policy

pytestmark = pytest.mark.anyio

SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)
FORKED = (
    "import os, time\nx = b'x' * (60 << 20)\n"
    "for _ in range(7):\n    if os.fork() == 0: break\ntime.sleep(1.5)\nprint('whole', flush=True)"
)

COMING_AND_GOING = """
import os, time
x = b"x" * (60 << 20)
while True:
    waiting, holding = os.pipe()
    for _ in range(7):
        if os.fork() == 0:
            os.close(holding)
            os.read(waiting, 1)
            os._exit(0)
    time.sleep(0.02)
    os.close(holding)
    os.close(waiting)
    for _ in range(7):
        os.wait()
"""


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


async def test_memory_that_forks_share_counts_once(workspace: Path) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(FORKED), timeout_s=300)
        assert (ran.stdout.split(), ran.limit_hit) == ([b"whole"] * ran.stdout.count(b"whole"), None)


async def test_memory_that_ending_forks_shared_counts_once(workspace: Path) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(COMING_AND_GOING), timeout_s=5)
        assert ran.limit_hit == LimitHit("command_timeout_s", "5 s")


async def test_a_reaper_is_never_the_biggest(jail: Jailed) -> None:
    """It uses more memory than most commands, and its end would end a command."""
    process = await jail.spawn(["sleep", "500"])
    async with asyncio.timeout(60):
        while True:  # the next reaper starts a child for a moment
            found = members(jail.warden_pid)
            commands = [each.pid for each in found if not each.trusted]
            if len(commands) == 1 and read(f"/proc/{commands[0]}/comm") == b"sleep\n":
                break
            await asyncio.sleep(0.01)
    held = usage(jail.warden_pid, found, max_bytes=1, max_descriptors=1, max_mappings=10**6)
    assert held.biggest == commands[0]
    await process.kill()
    process.close()


async def test_descriptors_are_limited_where_no_cgroup_counts(workspace: Path) -> None:
    """Including those of a thread with its own table."""
    script = (
        "import ctypes, os, threading, time\n"
        "def take():\n    ctypes.CDLL(None).unshare(0x400)\n"
        "    [os.dup(0) for _ in range(200)]\n    time.sleep(500)\n"
        "for _ in range(5): threading.Thread(target=take).start()"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, descriptors=900))) as jail:
        has_cgroup = jail._meter.has_cgroup
        ran = await jail.run(python(script), timeout_s=3 if has_cgroup else 300)
        assert ran.limit_hit == (
            LimitHit("command_timeout_s", "3 s") if has_cgroup else LimitHit("descriptors", "900")
        )
        script = script.replace("ctypes.CDLL(None).unshare(0x400)", "pass").replace("200", "150")
        shared = await jail.run(python(script), timeout_s=1.5)
        assert shared.limit_hit == LimitHit("command_timeout_s", "1.5 s")


async def test_sockets_count_by_their_maximum_buffers(jail: Jailed) -> None:
    def held() -> int:
        pid = jail.warden_pid
        return usage(pid, members(pid), max_bytes=1, max_descriptors=1, max_mappings=10**6).memory_bytes

    before = held()
    script = (
        "import socket, time\nkept = [socket.socketpair() for _ in range(100)]\n"
        "print(1, flush=True)\ntime.sleep(9)"
    )
    process = await jail.spawn(python(script))
    assert process.stdout is not None
    assert await process.stdout.read() == b"1\n"
    assert held() - before > 200 * 200_000
    await process.kill()
    process.close()
