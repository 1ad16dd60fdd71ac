"""Files that no walk finds count as growth too."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.interface import LimitHit
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import MIB, Limits, Policy

pytestmark = pytest.mark.anyio

SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)


def python(script: str) -> list[str]:
    return ["python3", "-c", script]


async def test_files_without_a_name_are_growth(workspace: Path) -> None:
    script = (
        "import os, time\nf = open('f', 'wb', 0)\nos.unlink('f')\n"
        "while True: f.write(bytes(4 << 20)); time.sleep(0.05)"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, workspace_growth_bytes=20 * MIB))) as jail:
        ran = await jail.run(python(script), timeout_s=120)
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_an_unnamed_file_in_flight_counts_as_growth(workspace: Path) -> None:
    """Their size is not visible: only the disk's fill level shows it, unless others free as much just
    then."""
    script = (
        "import os, socket, time\na, b = socket.socketpair()\n"
        "for _ in range(200):\n    f = open('f', 'wb', 0)\n    os.unlink('f')\n"
        "    f.write(bytes(10 << 20))\n    socket.send_fds(a, [b'x'], [f.fileno()])\n    f.close()\n"
        "    time.sleep(0.3)"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, workspace_growth_bytes=20 * MIB))) as jail:
        ran = await jail.run(python(script), timeout_s=120)
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")


async def test_an_unlinked_file_that_is_mapped_is_growth(workspace: Path) -> None:
    script = (
        "import mmap, os, time\nkept = []\n"
        "for _ in range(200):\n    f = open('f', 'w+b', 0)\n    os.unlink('f')\n"
        "    f.write(bytes(10 << 20))\n    kept.append(mmap.mmap(f.fileno(), 4096))\n    f.close()\n"
        "    time.sleep(0.3)"
    )
    async with open_jail(workspace, Policy(limits=replace(SMALL, workspace_growth_bytes=20 * MIB))) as jail:
        ran = await jail.run(python(script), timeout_s=120)
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
