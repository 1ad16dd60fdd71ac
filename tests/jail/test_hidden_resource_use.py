"""Memory, files and terminals that are not directly visible are counted too."""

import asyncio
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.jail.interface import Exit, LimitHit, Size
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import MIB, Limits, Policy

pytestmark = pytest.mark.anyio

SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)
SHARED = (
    "import mmap, time\nm = mmap.mmap(-1, 300 << 20)\nfor at in range(0, len(m), 4096): m[at] = 1\n"
    "m.madvise(mmap.MADV_DONTNEED)\ntime.sleep(500)"
)
LEADERLESS = (
    "import ctypes, threading, time\n"
    "def eat():\n    x = bytearray(300 << 20)\n"
    "    for at in range(0, len(x), 4096): x[at] = 1\n    time.sleep(500)\n"
    "threading.Thread(target=eat).start()\nctypes.CDLL(None).syscall(60 if ctypes.sizeof(ctypes.c_long) == 8 "
    "and __import__('platform').machine() == 'x86_64' else 93, 0)"
)


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


@pytest.mark.parametrize("script", [SHARED, LEADERLESS], ids=["shared", "leaderless"])
async def test_hidden_memory_is_found(workspace: Path, script: str) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        ran = await jail.run(python(script), timeout_s=300)
        assert ran.limit_hit == LimitHit("memory_bytes", "200 MiB")
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_a_swarm_is_cleared_at_once(workspace: Path) -> None:
    script = (
        "import os, time\nfor _ in range(45):\n"
        "    if os.fork() == 0:\n        x = b'x' * (8 << 20); time.sleep(500)\ntime.sleep(500)"
    )
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        mark = jail.mark()
        swarm = await jail.spawn(python(script))
        async with asyncio.timeout(300):
            while (hit := jail.limit_hit(mark, Exit(0, None))) is None:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            assert hit == LimitHit("memory_bytes", "200 MiB")
            if not jail._meter.has_cgroup:  # else the kernel kills one after the other until the rest fit in
                assert (await swarm.wait()).signal == signal.SIGKILL
            await swarm.kill()
        swarm.close()
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_files_written_before_a_sleep_count_as_growth(workspace: Path) -> None:
    """Even between two walks, with no activity afterwards."""
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB, workspace_growth_files=10_000)
    script = (
        "import time\nopen('a', 'wb').write(bytes(8 << 20))\ntime.sleep(1.3)\n"
        "open('b', 'wb').write(bytes(4 << 20))\ntime.sleep(1)\n"
        "for n in range(11_000): open(str(n), 'x').close()\ntime.sleep(500)"
    )
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        ran = await jail.run(python(script), timeout_s=300)
        assert ran.limit_hit is not None and ran.limit_hit.limit.startswith("workspace_growth")


async def test_terminals_are_limited(workspace: Path) -> None:
    script = "import os, time\nkept = [os.open('/dev/ptmx', 2) for _ in range(40)]\ntime.sleep(500)"
    async with open_jail(workspace, Policy(limits=replace(SMALL, terminals=20))) as jail:
        ran = await jail.run(python(script), timeout_s=300)
        assert ran.limit_hit == LimitHit("terminals", "20")
        again = await jail.spawn(["echo", "on"], terminal=Size())
        assert again.stdout is not None
        assert b"on" in await again.stdout.read()
        again.close()


async def test_running_out_of_terminals_is_reported(jail: Jailed, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.open

    def full(path: str, *rest: object, **options: object) -> int:
        if path == "ptmx":
            raise OSError(28, "No space left on device")
        return real(path, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", full)
    with pytest.raises(Unavailable, match="no free terminal"):
        await jail.spawn(["true"], terminal=Size())
