"""A jail is inspected when something may have changed."""

# ruff: noqa: ASYNC240 (reading the workspace is fast enough here)

import asyncio
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached, Unavailable
from hutch.jail.interface import PIPE, LimitHit
from hutch.jail.jail_processes import below
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.limits import limit_watcher
from hutch.jail.limits.exceeded_limit_inspection import MAX_HITS
from hutch.jail.policy import Limits, Policy

pytestmark = pytest.mark.anyio


async def test_an_idle_shell_is_inspected_rarely_and_a_new_command_wakes_the_watcher(jail: Jailed) -> None:
    process = await jail.spawn(["sh", "-c", "read x; echo $x; sleep 60"], stdin=PIPE)
    assert process.stdin is not None and process.stdout is not None
    assert jail._meter.watch is not None
    inspector = jail._meter.watch.inspector
    async with asyncio.timeout(60):
        while True:  # it takes a few looks to grow calm
            seen = inspector.members
            await asyncio.sleep(2.5)
            if inspector.members is seen:  # no inspection for longer than the maximum pause
                break
    assert len(below(jail.warden_pid)) == len(seen)
    await process.stdin.write(b"hello\n")
    jail.mark()
    assert await process.stdout.read() == b"hello\n"
    async with asyncio.timeout(60):
        while inspector.members is seen:  # noqa: ASYNC110 (set by a thread)
            await asyncio.sleep(0.01)
    await process.kill()
    process.close()


async def test_a_jail_that_has_too_many_files_can_be_cleaned(workspace: Path) -> None:
    """No process is killed for files that existed before, however often they are seen."""
    limits = replace(Limits(), workspace_growth_files=1000)
    make = "import time\nfor n in range(3000): open(str(n), 'x').close()\ntime.sleep(500)"
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        ran = await jail.run(["python3", "-c", make], timeout_s=120)
        assert ran.limit_hit == LimitHit("workspace_growth_files", "1000")
        cleaned = await jail.run(["sh", "-c", "sleep 3; ls | wc -l"])  # several looks
        assert (int(cleaned.stdout) > 1000, cleaned.limit_hit) == (True, None)


async def test_a_workspace_filled_repeatedly_must_be_cleaned_from_outside(
    workspace: Path,
) -> None:
    limits = replace(Limits(), workspace_growth_files=100)
    make = "import os,sys,time\nfor n in range(400): open(sys.argv[1] + str(n), 'x').close()\ntime.sleep(500)"
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        hits = 0
        with pytest.raises(LimitReached, match="repeatedly"):
            for number in range(20):
                ran = await jail.run(["python3", "-c", make, f"{number}-"], timeout_s=120)
                assert ran.limit_hit == LimitHit("workspace_growth_files", "100")
                hits += 1
        assert 0 < hits <= MAX_HITS  # on a busy machine one command can be noted twice before it is gone
        for path in workspace.iterdir():
            path.unlink()
        assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_a_jail_whose_watcher_fails_is_cleared_and_runs_nothing_more(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        process = await jail.spawn(["sleep", "500"])
        assert jail._meter.watch is not None
        jail._meter.watch.inspector.growth = None  # type: ignore[assignment] # so the next inspection fails
        async with asyncio.timeout(60):
            assert (await process.wait()).signal == 9
            with pytest.raises(Unavailable, match="The watcher of this jail has failed"):
                while True:
                    await jail.run(["true"])
        process.close()


async def test_no_command_starts_during_an_inspection_that_saw_one_which_has_ended(jail: Jailed) -> None:
    """Its findings are noted, and cleared away, before another command can be blamed for them."""
    assert jail._meter.watch is not None
    inspector, looking, may_end = jail._meter.watch.inspector, threading.Event(), threading.Event()
    real_inspection = inspector.inspect

    def slow_inspection() -> tuple[bool, int]:
        looking.set()
        may_end.wait(60)
        return real_inspection()

    process = await jail.spawn(["sleep", "500"])
    inspector.inspect = slow_inspection  # type: ignore[method-assign]
    await asyncio.to_thread(looking.wait, 60)
    await process.kill()
    process.close()
    wait_until_startable = asyncio.create_task(jail._meter.wait_until_startable())
    await asyncio.sleep(0.1)
    assert not wait_until_startable.done()
    may_end.set()
    await wait_until_startable
    assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_inspections_that_are_not_urgent_take_turns_and_a_long_one_blocks_no_other() -> None:
    order: list[str] = []

    async def inspector(name: str, seconds: float) -> None:
        async with limit_watcher._turn():
            order.append(f"{name} begins")
            await asyncio.sleep(seconds)
            order.append(f"{name} ends")

    await asyncio.gather(inspector("a", 0.001), inspector("b", 0.001))
    assert order == ["a begins", "a ends", "b begins", "b ends"]
    order.clear()
    await asyncio.gather(inspector("a", 4 * limit_watcher.MAX_TURN_S), inspector("b", 0), inspector("c", 0))
    assert order[:2] == ["a begins", "b begins"]
    assert order[-1] == "a ends"
    await asyncio.gather(inspector("a", 0), inspector("b", 0))  # no turn was released twice
    assert order[-4:] == ["a begins", "a ends", "b begins", "b ends"]


async def test_a_jail_is_watched_while_all_other_threads_are_busy(workspace: Path) -> None:
    limits = replace(Limits(), workspace_growth_files=300)
    script = "for n in $(seq 2000); do : > $n; done; sleep 60"
    set_running = threading.Event()
    async with open_jail(workspace, Policy(limits=limits)) as jail:
        held = [asyncio.ensure_future(asyncio.to_thread(set_running.wait)) for _ in range(64)]
        try:
            ran = await jail.run(["sh", "-c", script], timeout_s=300)
        finally:
            set_running.set()
            await asyncio.gather(*held)
    assert (ran.limit_hit, ran.timed_out) == (LimitHit("workspace_growth_files", "300"), False)
