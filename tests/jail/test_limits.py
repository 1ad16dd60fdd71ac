"""Each limit stops what exceeds it, is named in the result, and leaves the jail usable."""

# ruff: noqa: ASYNC240 (reading the host's /proc is fast enough here)

import asyncio
import os
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached
from hutch.jail.command_process import Command
from hutch.jail.interface import PIPE, Exit, Finished, LimitHit
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.limits.limit_enforcement import Mark
from hutch.jail.policy import AGENT, MIB, Limits, Policy

pytestmark = pytest.mark.anyio

SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)
FILL = (
    "import os, time\nn = 0\ntry:\n    while os.fork(): n += 1\n    time.sleep(500)\n"
    "except OSError:\n    print(n, flush=True); time.sleep(500)"
)
BOMB = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
# It keeps what it has when it gets no more: on a busy machine it is seen some time later.
EAT = (
    "import time\nx = []\nwhile True:\n    try: x.append(b'x' * 1_000_000)\n"
    "    except MemoryError: time.sleep(0.1)"
)


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def run_in(
    workspace: Path, limits: Limits, argv: list[str], *, timeout_s: float = 300
) -> tuple[Finished, Finished]:
    """The result of a command, and of a harmless one after it."""
    async with open_jail(workspace, replace(AGENT, limits=limits)) as jail:
        return await jail.run(argv, timeout_s=timeout_s), await jail.run(["echo", "on"])


async def test_memory_is_limited_for_all_processes_together(workspace: Path) -> None:
    script = f"import os\nfor _ in range(3): os.fork()\n{EAT}"
    ran, after = await run_in(workspace, SMALL, ["python3", "-c", script])
    assert ran.limit_hit == LimitHit("memory_bytes", "200 MiB")
    assert ran.exit_code != 0
    assert after.stdout == b"on\n"


async def test_memory_of_one_command_ends_no_other(workspace: Path) -> None:
    """Even when ending one process is not enough, and the others may outlive their command."""
    script = f"import os\nfor _ in range(5): os.fork()\n{EAT}"
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        beside = await jail.spawn(["cat"], stdin=PIPE)
        assert beside.stdin is not None and beside.stdout is not None
        eating = await jail.spawn(["python3", "-c", script])
        async with asyncio.timeout(300):
            await eating.wait_gone()
        eating.close()
        await beside.stdin.write(b"on\n")
        assert await beside.stdout.read() == b"on\n"
        await beside.kill()
        beside.close()


async def test_a_command_that_has_ended_before_it_is_ended_takes_no_other_along(workspace: Path) -> None:
    script = f"import os\nfor _ in range(5): os.fork()\n{EAT}"
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        beside = await jail.spawn(["cat"], stdin=PIPE)
        assert beside.stdin is not None and beside.stdout is not None
        assert jail._meter.watch is not None
        eating = await jail.spawn(["python3", "-c", script])
        async with asyncio.timeout(300):
            while not jail._meter.watch.inspector.is_clearing and not eating.is_gone:  # noqa: ASYNC110
                await asyncio.sleep(0)
        # Without a cgroup, an inspection has killed its processes. The watcher hears last of their end.
        until = time.monotonic() + 60
        while not eating.is_gone and time.monotonic() < until:
            eating._status_readable()
            time.sleep(0.01)  # noqa: ASYNC251
        async with asyncio.timeout(300):
            await eating.wait_gone()
        eating.close()
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"  # not before the watcher is done
        await beside.stdin.write(b"on\n")
        assert await beside.stdout.read() == b"on\n"
        await beside.kill()
        beside.close()


async def test_files_in_tmpfs_are_memory(workspace: Path) -> None:
    fill = "head -c 59000000 /dev/zero > /tmp/a; head -c 19000000 /dev/zero > /dev/shm/a"
    ran, after = await run_in(
        workspace, SMALL, sh(f"{fill}; exec python3 -c '{EAT}'".replace("b'x'", 'b"x"'))
    )
    assert ran.limit_hit == LimitHit("memory_bytes", "200 MiB")
    assert after.stdout == b"on\n"


@pytest.mark.parametrize("place", ["/tmp", "/dev/shm", "/home/hutch"])
async def test_a_full_tmpfs_is_full_and_no_more(workspace: Path, place: str) -> None:
    ran, after = await run_in(workspace, SMALL, sh(f"head -c 150000000 /dev/zero > {place}/big"))
    assert b"No space left on device" in ran.stderr
    assert after.stdout == b"on\n"


async def fill(jail: Jailed) -> tuple[Command, int, LimitHit]:
    """Start as many processes as possible, which stay; returns their number, and the limit in the result."""
    mark = jail.mark()
    filling = await jail.spawn(["python3", "-c", FILL])
    assert filling.stdout is not None
    made = int(await filling.stdout.read())
    hit = await reported_hit(jail, mark)
    filling.close()
    return filling, made, hit


async def reported_hit(jail: Jailed, mark: Mark) -> LimitHit:
    """The limit that was hit since, as soon as a watcher has seen it."""
    async with asyncio.timeout(300):
        while (hit := jail.limit_hit(mark, Exit(0, None))) is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return hit


async def test_processes_are_limited(workspace: Path) -> None:
    async with open_jail(workspace, Policy(limits=SMALL)) as jail:
        first, made, hit = await fill(jail)
        assert (40 <= made <= 60, hit) == (True, LimitHit("processes", "60"))
        with pytest.raises(LimitReached, match=r"reached its process limit|limit processes \(60\)"):
            more = await jail.run(["true"], timeout_s=300)  # no process has ended
            raise more.limit_hit.error() if more.limit_hit else AssertionError(more)
        await jail.clear()
        assert first.is_gone
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"
        assert (await fill(jail))[2] == hit  # and is reported again
        await jail.clear()
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


@pytest.mark.serial
async def test_next_door_of_a_fork_bomb_commands_run(workspace: Path) -> None:
    limits = replace(AGENT, limits=SMALL)
    async with open_jail(workspace, limits) as jail, open_jail(workspace, limits) as neighbour:
        mark = jail.mark()
        bomb = await jail.spawn(["python3", "-c", BOMB])
        assert await reported_hit(jail, mark) == LimitHit("processes", "60")
        for _ in range(3):
            assert (await neighbour.run(["echo", "on"])).stdout == b"on\n"
        assert not bomb.is_gone
        await bomb.kill()
        bomb.close()
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_the_workspace_may_grow_only_so_much(workspace: Path) -> None:
    (workspace / "before").write_bytes(b"x" * 30 * MIB)
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    script = "i=0; while :; do head -c 4000000 /dev/urandom > f$i; i=$((i+1)); sleep 0.02; done"
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        ran = await jail.run(sh(script), timeout_s=300)
        assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
        assert ran.signal == 9
        cleaned = await jail.run(sh("sleep 0.5; rm -f f*; sleep 0.5; echo clean"))
        assert (cleaned.stdout, cleaned.limit_hit) == (b"clean\n", None)
        again = await jail.run(sh(script), timeout_s=300)
        assert again.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")


@pytest.mark.serial
async def test_a_write_that_is_faster_than_the_watcher_is_named() -> None:
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    # Files that others remove from the same disk would hide the growth until the next walk.
    with tempfile.TemporaryDirectory(dir="/dev/shm") as workspace:
        async with open_jail(Path(workspace), Policy(limits=limits)) as jail:
            await jail.run(["true"])
            ran = await jail.run(sh("head -c 60000000 /dev/zero > big"))
            after = await jail.run(["echo", "on"])
    assert ran.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
    assert (after.stdout, after.limit_hit) == (b"on\n", None)


@pytest.mark.serial  # in a tree too deep to be read, what others write to the disk counts as growth
async def test_a_deep_tree_is_named_and_hides_no_growth(workspace: Path) -> None:
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    deepen = (
        "import os, time\nfor _ in range(300): os.mkdir('d'); os.chdir('d')\nopen('log', 'w')\ntime.sleep(60)"
    )
    write = (
        "import os, time\nfor _ in range(300): os.chdir('d')\nwith open('log', 'wb', 0) as log:\n"
        "    while True: log.write(b'x' * 4000000); time.sleep(0.02)"
    )
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        made = await jail.run(["python3", "-c", deepen], timeout_s=300)
        assert made.limit_hit == LimitHit("workspace_depth", "200 levels")
        written = await jail.run(["python3", "-c", write], timeout_s=300)
        assert written.limit_hit == LimitHit("workspace_growth_bytes", "20 MiB")
        cleaned = await jail.run(["rm", "-r", "d"])
        while cleaned.limit_hit is not None:  # others write to this disk too
            cleaned = await jail.run(["rm", "-r", "d"])
        assert (cleaned.exit_code, list(workspace.iterdir())) == (0, [])


async def test_sparse_files_count_by_their_content(workspace: Path) -> None:
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    ran, _ = await run_in(workspace, limits, sh("truncate -s 1G sparse; sleep 1.5; echo whole"))
    assert (ran.stdout, ran.limit_hit) == (b"whole\n", None)


async def test_files_in_tmpfs_are_counted(workspace: Path) -> None:
    limits = replace(SMALL, tmpfs_files=2000, memory_bytes=400 * MIB)
    script = "import os\nfor n in range(10**7): os.mknod(f'/tmp/{n}')"
    ran, after = await run_in(workspace, limits, ["python3", "-c", script])
    assert ran.limit_hit == LimitHit("tmpfs_files", "2000 in /tmp")
    assert after.stdout == b"on\n"


async def test_open_files_are_limited(workspace: Path) -> None:
    script = (
        "import os\nn = 0\ntry:\n"
        "    while True: os.dup(0); n += 1\nexcept OSError as error: print(n, error.errno)"
    )
    ran, _ = await run_in(workspace, replace(SMALL, open_files=100), ["python3", "-c", script])
    assert ran.stdout == b"97 24\n"


async def test_limits_cannot_be_raised_again(workspace: Path) -> None:
    ran, _ = await run_in(workspace, SMALL, sh("ulimit -n 100000; ulimit -f unlimited; ulimit -c unlimited"))
    assert ran.stderr.count(b"Operation not permitted") == 3
    assert ran.exit_code != 0


async def test_nothing_remains_of_a_jails_groups(workspace: Path) -> None:
    def groups() -> set[Path]:
        own = f"hutch.{os.getpid()}."
        found = os.walk("/sys/fs/cgroup")  # passes over groups of others that vanish meanwhile
        return {Path(above, name) for above, names, _ in found for name in names if name.startswith(own)}

    before = groups()  # of jails of other tests that are still being closed
    async with open_jail(workspace) as jail:
        await jail.run(["true"])
        made = groups() - before
        if os.geteuid() == 0 and Path("/sys/fs/cgroup/memory/cgroup.procs").exists():
            assert made
    assert not groups() & made
