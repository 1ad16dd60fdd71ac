"""Limits by name, in the result of the command that hit them."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.cli.limit_messages import message
from hutch.jail.interface import PIPE, Exit, LimitHit
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.limits.limit_hit_attribution import UNKNOWN, EndedCommand, HitBy, LimitHits, limit_of_signal
from hutch.jail.policy import AGENT, GIB, MIB, Limits, build_policy
from hutch.jail.shell.shared_jails_and_shells import Shells
from hutch.settings.schema import Settings
from tests.deadline import DEADLINE_S

FULL = LimitHit("processes", "60")
MEMORY = LimitHit("memory_bytes", "200 MiB")
SMALL = Limits(
    processes=60, memory_bytes=200 * MIB, tmp_bytes=60 * MIB, shm_bytes=20 * MIB, home_bytes=20 * MIB
)
EAT = "x = []\nwhile True: x.append(b'x' * 1_000_000)"
# It stays at three quarters until it gets input, so that it can be seen.
EAT_SLOWLY = (
    "import os, time\nx = [b'x' * 150_000_000]\n"
    f"while not os.path.exists('/workspace/more'): sum(range(10_000))\n{EAT}"
)
FORK = (
    "import os, time\ntry:\n    while os.fork(): pass\n    time.sleep(500)\n    os._exit(0)\n"
    "except OSError: pass"
)

# Leaves no process for others.
FILL = (
    "import os, time\nwhile True:\n    try:\n        if not os.fork(): time.sleep(500)\n"
    "    except OSError:\n        open('full', 'w')\n        time.sleep(0.01)"
)


def test_a_repeated_hit_is_noted_once_per_window() -> None:
    hits = LimitHits()
    hits.note_once(FULL)
    hits.note_once(FULL)
    assert hits.noted == [(FULL, UNKNOWN)]
    hits.start_window()
    hits.note_once(FULL)
    hits.note_once(FULL)
    assert hits.noted == [(FULL, UNKNOWN), (FULL, UNKNOWN)]


def test_a_signal_identifies_its_limit() -> None:
    limits = Limits(cpu_time_s=3, file_bytes=5 * MIB)
    assert limit_of_signal(Exit(None, 24), limits) == LimitHit("cpu_time_s", "3 s")
    assert limit_of_signal(Exit(None, 25), limits) == LimitHit("file_bytes", "5 MiB")
    assert limit_of_signal(Exit(128 + 25, None), limits) is None  # any program can print that
    assert limit_of_signal(Exit(None, 24), Limits()) is None
    assert limit_of_signal(Exit(1, None), limits) is None


def ended_command(
    *, reaper: int = 7, has_failed: bool = False, was_alone: bool = False, is_lost: bool = False
) -> EndedCommand:
    return EndedCommand(reaper, 100.0, has_failed=has_failed, was_alone=was_alone, is_lost=is_lost)


def test_a_hit_without_a_known_cause_is_of_a_command_that_was_alone_or_failed() -> None:
    assert ended_command(was_alone=True).hit(UNKNOWN)
    assert ended_command(has_failed=True).hit(UNKNOWN)
    assert not ended_command().hit(UNKNOWN)


def test_a_hit_with_a_known_cause_is_of_that_command_and_no_other() -> None:
    by = HitBy(frozenset({7}), started_at=100.5)
    assert ended_command().hit(by)
    assert not ended_command(reaper=8, has_failed=True).hit(by)
    earlier = HitBy(frozenset({7}), started_at=99.0)  # by what a command before it left running
    assert not ended_command(has_failed=True).hit(earlier)
    assert ended_command(has_failed=True, is_lost=True).hit(earlier)  # the shell itself


async def until_blamed(jail: Jailed) -> None:
    """Wait until an inspection has seen a process with most of the memory."""
    assert jail._meter.watch is not None
    inspector = jail._meter.watch.inspector
    async with asyncio.timeout(120):
        while jail._meter.has_cgroup and inspector._biggest is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.mark.soak  # needs a machine on which the watcher is not late
@pytest.mark.anyio
@pytest.mark.parametrize("exit_code", [0, 1])
async def test_a_command_is_not_blamed_for_the_memory_of_another(workspace: Path, exit_code: int) -> None:
    await asyncio.to_thread(workspace.chmod, 0o777)
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        beside = asyncio.create_task(
            jail.run(["/bin/sh", "-c", f"until test -e done; do sleep 0.05; done; exit {exit_code}"])
        )
        eating = asyncio.create_task(jail.run(["python3", "-c", EAT_SLOWLY], timeout_s=300))
        await until_blamed(jail)
        await asyncio.to_thread((workspace / "more").touch)
        assert (await eating).limit_hit == MEMORY
        await asyncio.to_thread((workspace / "done").touch)
        ran = await beside
        assert (ran.exit_code, ran.limit_hit) == (exit_code, None)


@pytest.mark.soak  # needs a machine on which the watcher is not late
@pytest.mark.anyio
@pytest.mark.parametrize("exit_code", [0, 1])
async def test_a_command_is_not_blamed_for_the_processes_of_another(workspace: Path, exit_code: int) -> None:
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        beside = await jail.spawn(["cat"], stdin=PIPE)
        waits = asyncio.create_task(
            jail.run(["/bin/sh", "-c", f"until test -e done; do read x; done; exit {exit_code}"])
        )
        if jail._meter.has_cgroup:  # else only an inspection can find it, and the bomb may have ended before
            assert (await jail.run(["python3", "-c", FORK])).limit_hit == FULL
        else:
            await jail.run(["python3", "-c", FORK])
        await asyncio.to_thread((workspace / "done").touch)
        ran = await waits
        assert (ran.exit_code, ran.limit_hit) == (exit_code, None)
        await beside.kill()
        beside.close()


@pytest.mark.anyio
async def test_a_command_of_a_shell_is_not_blamed_for_the_previous_one(workspace: Path) -> None:
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        shell = Shells(jail).shell()
        ran = await shell.run(f'python3 -c "{EAT}"; true', timeout_s=300)
        assert (ran.exit_code, ran.limit_hit) == (0, None)
        assert (await shell.run("false")).limit_hit is None
        assert (await shell.run(f'python3 -c "{EAT}"', timeout_s=300)).limit_hit == MEMORY
        assert (await shell.run("false")).limit_hit is None


@pytest.mark.soak  # needs a machine on which the watcher is not late
@pytest.mark.anyio
async def test_a_command_of_a_shell_is_not_blamed_for_jobs_of_the_previous_one(workspace: Path) -> None:
    await asyncio.to_thread(workspace.chmod, 0o777)
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        shell = Shells(jail).shell()
        await shell.run(f'(python3 -c "{EAT_SLOWLY}"; : >ended) >log 2>&1 &')
        await until_blamed(jail)
        ran = await shell.run(": >more; until test -e ended; do sleep 0.05; done; false", timeout_s=300)
        assert (ran.exit_code, ran.limit_hit) == (1, None)


# --- a full tmpfs ---

FILL_TMP = "head -c 100M /dev/zero > /tmp/full"
GROW = "head -c 50M /dev/zero > large; sleep 1000"
TMP, GROWTH = LimitHit("tmp_bytes", "60 MiB"), LimitHit("workspace_growth_bytes", "20 MiB")


@pytest.mark.anyio
@pytest.mark.parametrize("in_shell", [False, True])
async def test_a_full_tmpfs_is_blamed_on_the_command_that_filled_it(workspace: Path, in_shell: bool) -> None:
    await asyncio.to_thread(workspace.chmod, 0o777)
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    async with open_jail(workspace, replace(AGENT, limits=limits)) as jail:
        shells = Shells(jail)

        async def hit(command: str) -> LimitHit | None:
            if in_shell:
                return (await shells.shell("a").run(command, timeout_s=DEADLINE_S)).limit_hit
            return (await jail.run(["/bin/sh", "-c", command], timeout_s=DEADLINE_S)).limit_hit

        assert await hit(FILL_TMP) == TMP
        assert [await hit(command) for command in ("false", "sleep 1; false", "true")] == [None] * 3
        assert await hit("head -c 9 /dev/zero > /tmp/another") == TMP, "it is still full"
        assert await hit("head -c 9 /dev/zero > /tmp/another; true") == TMP, "although it succeeded"
        assert await hit("head -c 9 /dev/zero 2>&1 > /tmp/another | cat; true") == TMP
        assert await hit("rm /tmp/full; echo 'No space left on device'") is None, "it is not full"
        assert await hit(f"({FILL_TMP}) 2>/dev/null; true") == TMP, "it has filled it"
        assert await hit("true") is None
        assert await hit(GROW) == GROWTH
        assert await hit("sleep 1; false") is None
        await shells.close()


@pytest.mark.anyio
async def test_a_tmpfs_that_the_memory_has_reduced_is_named_with_the_size_that_was_set(
    workspace: Path,
) -> None:
    values = {"memory_bytes": 128 * MIB, "file_bytes": None, "workspace_growth_bytes": GIB}
    tmpfs = {"tmp_bytes": GIB, "shm_bytes": 128 * MIB, "home_bytes": 128 * MIB}
    await asyncio.to_thread(workspace.chmod, 0o777)
    async with open_jail(workspace, build_policy("agent", values | tmpfs)) as jail:
        hit = (await jail.run(["/bin/sh", "-c", FILL_TMP])).limit_hit
    assert hit is not None
    assert str(hit) == "tmp_bytes 64 MiB instead of 1 GiB because of memory_bytes 128 MiB"
    assert str(hit.error()).endswith("Use less or raise memory_bytes.")
    assert message(hit, AGENT, Settings()).endswith("raise jail.memory_bytes in your settings.")


@pytest.mark.anyio
async def test_the_limit_that_stopped_a_command_is_named_before_a_full_tmpfs(workspace: Path) -> None:
    await asyncio.to_thread(workspace.chmod, 0o777)
    limits = replace(SMALL, workspace_growth_bytes=20 * MIB)
    async with open_jail(workspace, replace(AGENT, limits=limits)) as jail:
        ran = await jail.run(["/bin/sh", "-c", f"{FILL_TMP}; sleep 1; {GROW}"], timeout_s=300)
    assert ran.limit_hit == GROWTH


@pytest.mark.anyio
async def test_a_refusal_that_only_the_program_sees_is_named(workspace: Path) -> None:
    limits = replace(AGENT.limits, open_files=300, file_bytes=3 * MIB)
    open_many = "x = [open('/dev/null') for _ in range(400)]"
    write_much = "open('big', 'wb').write(bytes(4_000_000))"
    async with open_jail(workspace, replace(AGENT, limits=limits)) as jail:
        shell = Shells(jail).shell("main")
        for command, hit in (
            (f'python3 -c "{open_many}"', LimitHit("open_files", "300")),
            (f'python3 -c "{write_much}"', LimitHit("file_bytes", "3 MiB")),
            ("head -c 4000000 /dev/zero > big", LimitHit("file_bytes", "3 MiB")),
            ("echo 'Too many open files'; false", None),  # not on standard error
            ("echo 'Too many open files' >&2", None),  # it succeeds
        ):
            assert (await shell.run(command)).limit_hit == hit, command
        assert (await jail.run(["python3", "-c", open_many])).limit_hit == LimitHit("open_files", "300")


@pytest.mark.anyio
async def test_a_command_that_finds_no_process_left_names_the_limit(workspace: Path) -> None:
    async with open_jail(workspace, replace(AGENT, limits=SMALL)) as jail:
        shells = Shells(jail)
        shell = shells.shell("main")
        assert (await shell.run("cat /dev/null")).exit_code == 0
        await shells.shell("other").run(f'python3 -c "{FILL}" & until [ -e full ]; do :; done')
        async with asyncio.timeout(DEADLINE_S):
            # The place of the other command is free for a moment, and this one may get it.
            while (ended := await shell.run("cat /dev/null")).exit_code == 0:
                continue
        assert ended.limit_hit == FULL
