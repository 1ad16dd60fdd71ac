"""The end of a jail whose first process does not get to end the others."""

import asyncio
import os
import signal
import subprocess

import pytest

from hutch.jail.jail_processes import below
from hutch.jail.jail_startup import Jailed
from hutch.jail.launch.teardown import Teardown

pytestmark = pytest.mark.anyio


async def test_all_are_killed_while_the_first_process_is_alive(jail: Jailed) -> None:
    """As if the kernel never got to it: the warden was not killed."""
    sleeper = await jail.spawn(["sh", "-c", "sleep 600 & sleep 600"])
    await sleeper.signal(signal.SIGCONT)  # once it has started
    teardown = Teardown(jail.warden_pidfd, jail._launched.process)
    inside = set(below(jail.warden_pid))
    assert not await teardown.wait(0.5, warden_pid=jail.warden_pid)
    assert not inside & set(below(jail.warden_pid))
    assert (await sleeper.wait()).signal == signal.SIGKILL
    sleeper.close()


async def test_the_user_id_stays_claimed_until_all_processes_have_ended() -> None:
    """A process simulates a first process that cannot die yet."""
    stubborn = subprocess.Popen(["sleep", "600"])  # noqa: ASYNC220
    pidfd = os.pidfd_open(stubborn.pid)
    teardown = Teardown(pidfd, stubborn)
    try:
        assert not await teardown.wait(0.05, warden_pid=0)
        teardown.kill()
        assert await teardown.wait(60, warden_pid=0)
        assert stubborn.returncode == -signal.SIGKILL
    finally:
        os.close(pidfd)


async def test_closing_twice_is_harmless(jail: Jailed) -> None:
    await asyncio.gather(jail.close(), jail.close())
    await jail.close()
