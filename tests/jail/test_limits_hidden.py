"""Memory, files and terminals that do not show at first sight are counted too."""

import asyncio
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.jail.jail import Jailed, open_jail
from hutch.jail.policy import MIB, Limits, Policy
from hutch.jail.seam import PIPE, LimitHit, Size
from hutch.jail.watch import below, kill_if_inside, members, usage

pytestmark = pytest.mark.anyio

SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)
SHARED = (
    "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nfor at in range(0, len(m), 4096): m[at] = 1\n"
    "m.madvise(mmap.MADV_DONTNEED)\ntime.sleep(20)"
)
LEADERLESS = (
    "import ctypes, threading, time\n"
    "def eat():\n    x = bytearray(300 << 20)\n"
    "    for at in range(0, len(x), 4096): x[at] = 1\n    time.sleep(20)\n"
    "threading.Thread(target=eat).start()\nctypes.CDLL(None).syscall(60 if ctypes.sizeof(ctypes.c_long) == 8 "
    "and __import__('platform').machine() == 'x86_64' else 93, 0)"
)
FORKED = (
    "import os, time\nx = b'x' * (60 << 20)\n"
    "for _ in range(7):\n    if os.fork() == 0: break\ntime.sleep(1.5)\nprint('whole', flush=True)"
)


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


@pytest.mark.parametrize("script", [SHARED, LEADERLESS], ids=["shared", "leaderless"])
async def test_memory_that_hides_is_found(workspace: Path, script: str) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(script), timeout_s=10)
        assert ran.limit_hit == LimitHit("memory_bytes", "200 MiB")
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_memory_that_forks_share_counts_once(workspace: Path) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(FORKED), timeout_s=10)
        assert (ran.stdout.split(), ran.limit_hit) == ([b"whole"] * ran.stdout.count(b"whole"), None)


async def test_a_swarm_is_cleared_at_once(workspace: Path) -> None:
    script = (
        "import os, time\nfor _ in range(45):\n"
        "    if os.fork() == 0:\n        x = b'x' * (8 << 20); time.sleep(20)\ntime.sleep(20)"
    )
    began = time.monotonic()
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(script), timeout_s=15)
        assert ran.limit_hit == LimitHit("memory_bytes", "200 MiB")
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"
        if not jail._meter.counted:  # else the kernel kills one after the other
            assert time.monotonic() - began < 5


async def test_files_without_a_name_are_growth(workspace: Path) -> None:
    script = (
        "import os, time\nf = open('f', 'wb', 0)\nos.unlink('f')\n"
        "while True: f.write(bytes(4 << 20)); time.sleep(0.05)"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, workspace_growth_bytes=20 * MIB))) as jail:
        ran = await jail.run(python(script), timeout_s=10)
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_a_nameless_file_in_flight_is_growth(workspace: Path) -> None:
    script = (
        "import os, socket, time\nf = open('f', 'wb', 0)\nos.unlink('f')\na, b = socket.socketpair()\n"
        "f.write(bytes(30 << 20))\nsocket.send_fds(a, [b'x'], [f.fileno()])\nf.close()\n"
        "time.sleep(20)"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, workspace_growth_bytes=20 * MIB))) as jail:
        for _ in range(3):  # what others free on the same file system may hide it for a while
            ran = await jail.run(python(script), timeout_s=10)
            if not ran.timed_out:
                break
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")


async def test_terminals_are_limited(workspace: Path) -> None:
    script = "import os, time\nkept = [os.open('/dev/ptmx', 2) for _ in range(40)]\ntime.sleep(10)"
    async with open_jail(workspace, Policy(limits=replace(SMALL, terminals=20))) as jail:
        ran = await jail.run(python(script), timeout_s=8)
        assert ran.limit_hit == LimitHit("terminals", "20")
        again = await jail.spawn(["echo", "on"], terminal=Size())
        assert again.stdout is not None
        assert b"on" in await again.stdout.read()
        again.close()


async def test_descriptors_are_limited_where_no_cgroup_counts(workspace: Path) -> None:
    """Those of a thread with a table of its own too."""
    script = (
        "import ctypes, os, threading, time\n"
        "def take():\n    ctypes.CDLL(None).unshare(0x400)\n"
        "    [os.dup(0) for _ in range(200)]\n    time.sleep(10)\n"
        "for _ in range(5): threading.Thread(target=take).start()"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, descriptors=900))) as jail:
        ran = await jail.run(python(script), timeout_s=3)
        counted = jail._meter.counted
        assert ran.limit_hit == (
            LimitHit("command_timeout_s", "3 s") if counted else LimitHit("descriptors", "900")
        )
        script = script.replace("ctypes.CDLL(None).unshare(0x400)", "pass").replace("200", "150")
        shared = await jail.run(python(script), timeout_s=1.5)
        assert shared.limit_hit == LimitHit("command_timeout_s", "1.5 s")


async def test_only_what_is_below_the_warden_is_killed(jail: Jailed) -> None:
    process = await jail.spawn(["sleep", "60"])
    while not process.has_begun:  # noqa: ASYNC110
        await asyncio.sleep(0.01)
    sleeping = [each for each in members(jail.warden_pid) if not each.trusted]
    assert not kill_if_inside(os.getpid(), warden=jail.warden_pid)
    assert not kill_if_inside(1, warden=jail.warden_pid)
    assert kill_if_inside(sleeping[0].pid, warden=jail.warden_pid)
    assert (await process.wait()).signal == 9
    process.close()


async def test_sockets_count_by_what_they_could_hold(jail: Jailed) -> None:
    def held() -> int:
        pid = jail.warden_pid
        return usage(pid, members(pid), most_bytes=1, most_descriptors=1).memory_bytes

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


async def test_an_idle_shell_is_looked_at_rarely_and_a_stir_wakes_the_watcher(jail: Jailed) -> None:
    process = await jail.spawn(["sh", "-c", "read x; echo $x; sleep 60"], stdin=PIPE)
    assert process.stdin is not None and process.stdout is not None
    await asyncio.sleep(3)
    meter = jail._meter
    seen = meter._members
    assert len(below(jail.warden_pid)) == len(seen)
    await asyncio.sleep(1.2)
    assert meter._members is seen  # nobody has looked again
    await process.stdin.write(b"hello\n")
    jail.mark()
    assert await process.stdout.read() == b"hello\n"
    await asyncio.sleep(0.5)
    assert meter._members is not seen
    await process.kill()
    process.close()


async def test_no_terminal_left_is_told(jail: Jailed, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: str, *rest: object, **options: object) -> int:
        if path == "ptmx":
            raise OSError(28, "No space left on device")
        return real(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Unavailable, match="no terminal left"):
        await jail.spawn(["true"], terminal=Size())
