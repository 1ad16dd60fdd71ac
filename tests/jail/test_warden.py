"""Commands that attack their warden."""

# ruff: noqa: ASYNC110 (reading the host's /proc is fast enough here)

import asyncio
import signal
from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached, Unavailable
from hutch.jail.interface import Finished
from hutch.jail.jail_startup import Jailed, open_jail

pytestmark = pytest.mark.anyio

# Forks, starts a new session and exits, for ever: no listing of /proc ever finds it alive.
RABBIT = """
import os, sys
os.close(1); os.close(2)
while True:
    if os.fork(): os._exit(0)
    os.setsid()
"""


def sh(script: str) -> list[str]:
    return ["/bin/sh", "-c", script]


async def processes(jail: Jailed) -> int:
    """Processes of commands, without the three of this one."""
    while not (ran := await jail.run(sh("ps -e -o args= | grep -vc '^/run/hutch/warden'"))).stdout:
        assert b"fork" in ran.stderr, ran  # no free processes yet for all three: see below
        await asyncio.sleep(0.05)
    return int(ran.stdout) - 3


async def when_there_is_room(jail: Jailed, argv: list[str]) -> Finished:
    """Retry: killed processes count until they are reaped, which takes time on a busy machine."""
    while True:
        try:
            return await jail.run(argv)
        except LimitReached:
            await asyncio.sleep(0.05)


async def test_killing_the_reaper_frees_no_process(jail: Jailed) -> None:
    ran = await jail.run(sh("sleep 60 & setsid -f sleep 60; kill -9 $PPID; sleep 60"))
    assert (ran.exit_code, ran.signal) == (None, signal.SIGKILL)
    async with asyncio.timeout(60):
        while await processes(jail):
            await asyncio.sleep(0.01)


async def test_killing_everything_is_survived(jail: Jailed) -> None:
    assert (await jail.run(sh("kill -9 -1; sleep 60"))).signal == signal.SIGKILL
    assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_stopping_everything_is_survived(jail: Jailed) -> None:
    ran = await jail.run(sh("kill -STOP -1; sleep 60"), timeout_s=0.5)
    assert (ran.timed_out, ran.signal) == (True, signal.SIGKILL)
    assert (await jail.run(["echo", "on"])).stdout == b"on\n"


async def test_a_stopped_waiting_reaper_is_resumed(jail: Jailed) -> None:
    await jail.run(sh("pkill -STOP -f warden.py"), timeout_s=1)  # its own reaper too
    assert (await jail.run(["echo", "on"], timeout_s=60)).stdout == b"on\n"


async def test_a_careless_pkill_spares_warden_and_reapers(jail: Jailed) -> None:
    other = await jail.spawn(["sleep", "60"])
    await jail.run(sh("pkill -f python; pkill -f hutch; kill -TERM 1; kill -HUP $PPID; true"))
    await jail.run(sh("pkill -9 python; pkill -9 -x python3; true"))
    assert other.is_gone is False
    await other.kill()
    other.close()


async def test_a_tree_that_forks_faster_than_it_can_be_listed_is_killed(jail: Jailed) -> None:
    ran = await jail.run(["python3", "-c", RABBIT], timeout_s=60)
    assert not ran.timed_out  # its first process is soon gone
    rabbits = await jail.spawn(sh("(python3 -c '" + RABBIT + "') & sleep 60"))
    await asyncio.sleep(0.3)
    async with asyncio.timeout(300):
        await rabbits.kill()
        await jail.clear()
        while await processes(jail):
            await asyncio.sleep(0.01)
    rabbits.close()


@pytest.mark.serial
async def test_a_timeout_in_a_fork_bomb_leaves_nothing(jail: Jailed) -> None:
    ran = await jail.run(
        ["python3", "-c", "import os\nwhile True:\n try: os.fork()\n except OSError: pass"], timeout_s=1
    )
    assert ran.timed_out
    async with asyncio.timeout(300):
        assert (await when_there_is_room(jail, ["echo", "on"])).stdout == b"on\n"
        while await processes(jail):
            await asyncio.sleep(0.05)


async def test_a_finished_commands_nonce_kills_no_other(jail: Jailed) -> None:
    for _ in range(20):
        short = await jail.spawn(["true"])
        after = asyncio.create_task(jail.run(sh("sleep 0.02; echo whole")))
        await short.kill()
        short.close()
        assert (await after).stdout == b"whole\n"


async def test_a_killed_warden_ends_the_jail_and_says_so(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        process = await jail.spawn(["sleep", "60"])
        Path(f"/proc/{jail.warden_pid}")  # from outside it can be killed
        signal.pidfd_send_signal(jail.warden_pidfd, signal.SIGKILL)
        assert (await process.wait()).signal == signal.SIGKILL
        with pytest.raises(Unavailable, match="Open a new one"):
            while True:
                await jail.run(["true"], timeout_s=1)
        process.close()
