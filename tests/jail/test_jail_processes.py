"""Which processes are in a jail."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from hutch.jail.jail_processes import is_below, is_dying, kill_if_inside, members, read, tables
from hutch.jail.jail_startup import Jailed

pytestmark = pytest.mark.anyio

THREADS = (
    "import ctypes, threading, time\nready = threading.Barrier(4)\n"
    "def plain():\n    ready.wait()\n    time.sleep(500)\n"
    "def apart():\n    ctypes.CDLL(None).unshare(0x400)\n    plain()\n"
    "for each in (plain, apart, apart): threading.Thread(target=each).start()\n"
    "ready.wait()\nprint(1, flush=True)"
)


def is_sleep(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/comm").read_text() == "sleep\n"
    except OSError:  # a reaper that goes through the motions of a command, say
        return False


async def test_only_processes_below_the_warden_are_killed(jail: Jailed) -> None:
    process = await jail.spawn(["sleep", "500"])
    async with asyncio.timeout(60):
        while not (sleeping := [each.pid for each in members(jail.warden_pid) if is_sleep(each.pid)]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    assert not kill_if_inside(os.getpid(), warden=jail.warden_pid)
    assert not kill_if_inside(1, warden=jail.warden_pid)
    assert kill_if_inside(sleeping[0], warden=jail.warden_pid)
    assert (await process.wait()).signal == 9
    process.close()


async def test_a_killed_process_is_dying_and_one_without_its_first_thread_is_not(jail: Jailed) -> None:
    leave = (
        "import ctypes, os, threading, time\n"
        "threading.Thread(target=time.sleep, args=[500]).start()\nprint(1, flush=True)\n"
        "ctypes.CDLL(None).pthread_exit(None)"
    )
    process = await jail.spawn(["python3", "-c", leave])
    assert process.stdout is not None
    assert await process.stdout.read() == b"1\n"
    async with asyncio.timeout(60):
        while True:
            # The next reaper starts a child for a moment, to be quick later; that one is not meant.
            begun = [each for each in members(jail.warden_pid) if not each.trusted and len(each.threads) > 1]
            if begun and read(f"/proc/{begun[0].pid}/stat").rpartition(b")")[2].split()[:1] == [b"Z"]:
                break
            await asyncio.sleep(0.01)
    (member,) = begun
    assert not is_dying(member)
    os.kill(member.pid, signal.SIGKILL)
    async with asyncio.timeout(60):
        while not is_dying(member):  # noqa: ASYNC110 (at the latest when it has ended)
            await asyncio.sleep(0.01)
    assert (await process.wait()).signal == signal.SIGKILL
    process.close()


async def test_threads_are_listed_and_their_own_tables(jail: Jailed) -> None:
    process = await jail.spawn(["python3", "-c", THREADS])
    assert process.stdout is not None
    assert await process.stdout.read() == b"1\n"
    (member,) = [each for each in members(jail.warden_pid) if len(each.threads) > 1]
    assert is_below(member.pid, jail.warden_pid)
    assert (len(member.threads), len(list(tables(member)))) == (4, 3)  # one thread shares the first's
    await process.kill()
    process.close()
