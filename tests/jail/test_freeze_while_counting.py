"""A jail is stopped, and resumes without a trace."""

import asyncio
import time
from pathlib import Path

import pytest

from hutch.jail.jail_processes import below, read
from hutch.jail.jail_startup import Jailed
from hutch.jail.limits.freeze_while_counting import freeze

pytestmark = pytest.mark.anyio

COUNT = "import os,time\nfor _ in range(6): os.fork()\nwhile True: os.utime('beat'); os.getppid()"


def states(jail: Jailed) -> list[bytes]:
    """The states of all processes except the reapers and the warden."""
    fields = [read(f"/proc/{pid}/stat").rpartition(b") ")[2] for pid in below(jail.warden_pid)]
    reapers = b"%d" % jail.warden_pid
    return sorted(stat[:1] for stat in fields if stat and stat.split()[1] != reapers)


async def test_no_process_runs_meanwhile_and_all_resume(jail: Jailed, workspace: Path) -> None:
    (workspace / "beat").touch()
    (workspace / "beat").chmod(0o666)
    counting = await jail.spawn(["python3", "-c", COUNT])
    async with asyncio.timeout(60):
        while len(states(jail)) < 64:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with freeze(jail.warden_pid) as stands:
        assert (stands, set(states(jail))) == (True, {b"T"})
        before = (workspace / "beat").stat().st_mtime_ns
        await asyncio.sleep(0.1)
        assert (workspace / "beat").stat().st_mtime_ns == before
    async with asyncio.timeout(60):
        while (workspace / "beat").stat().st_mtime_ns == before:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    await counting.kill()
    counting.close()


async def test_a_process_that_was_stopped_before_stays_stopped(jail: Jailed) -> None:
    stopped = await jail.spawn(["sh", "-c", "kill -STOP $$"])
    async with asyncio.timeout(60):
        while states(jail) != [b"T"]:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    with freeze(jail.warden_pid) as stands:
        assert stands
    await asyncio.sleep(0.1)
    assert states(jail) == [b"T"]
    await stopped.kill()
    stopped.close()


async def test_a_shell_with_job_control_does_not_see_it(jail: Jailed, workspace: Path) -> None:
    script = "set -m; until test -e enough; do sleep 0.3; echo $?; done"
    running = asyncio.create_task(jail.run(["bash", "-c", script]))
    stops = 0
    while not running.done():
        started_at = time.monotonic()
        with freeze(jail.warden_pid):
            stops += 1
        if stops == 20:
            (workspace / "enough").touch()
        await asyncio.sleep(0.02 + time.monotonic() - started_at)
    done = await running
    assert done.stdout and done.stdout == b"0\n" * done.stdout.count(b"\n"), done
