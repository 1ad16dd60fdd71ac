"""The processor time of a command counts with all its processes, also those that nobody waits for."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.interface import LimitHit
from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import AGENT
from hutch.jail.shell.shared_jails_and_shells import Shells

pytestmark = [pytest.mark.anyio, pytest.mark.serial]
LIMITED = replace(AGENT, limits=replace(AGENT.limits, cpu_time_s=1))
TIMEOUT_S = 300.0
HIT = LimitHit("cpu_time_s", "1 s")
SPIN = "while :; do :; done"
# Each process lives for a few milliseconds, and the kernel forgets its time: its parent ignores it.
FORGOTTEN = """\
import os, signal, time
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.005
        while time.process_time() < end: pass
        os._exit(0)
    time.sleep(0.005)
"""
WAITED_FOR = """\
import os, time
while True:
    if os.fork() == 0:
        end = time.process_time() + 0.005
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()
"""


@pytest.mark.parametrize("code", [FORGOTTEN, WAITED_FOR], ids=["forgotten", "waited for"])
async def test_many_short_processes_are_ended_like_a_long_one(workspace: Path, code: str) -> None:
    async with open_jail(workspace, LIMITED) as jail:
        ran = await jail.run(["/usr/bin/python3", "-c", code], timeout_s=TIMEOUT_S)
        assert (ran.limit_hit, ran.timed_out) == (HIT, False)
        again = await jail.run(["echo", "usable"])
        assert (again.stdout, again.limit_hit) == (b"usable\n", None)


async def test_each_command_of_a_shell_has_the_whole_time(workspace: Path) -> None:
    work = "import time\nend = time.process_time() + 0.6\nwhile time.process_time() < end: pass"
    async with open_jail(workspace, LIMITED) as jail:
        shell = Shells(jail).shell("agent", program="/bin/bash")
        for _ in range(3):
            done = await shell.run(f"/usr/bin/python3 -c '{work}'; echo $?", timeout_s=TIMEOUT_S)
            assert (done.stdout, done.limit_hit) == ("0\n", None)
        spun = await shell.run(SPIN, timeout_s=TIMEOUT_S)
        assert (spun.limit_hit, spun.timed_out) == (HIT, False)
        after = await shell.run("echo usable")
        assert (after.stdout, after.limit_hit) == ("usable\n", None)


async def test_only_the_command_that_used_its_time_is_ended(workspace: Path) -> None:
    async with open_jail(workspace, LIMITED) as jail:
        sleeping = await jail.spawn(["sleep", "1000"])
        ran = await jail.run(["sh", "-c", SPIN], timeout_s=TIMEOUT_S)
        assert ran.limit_hit == HIT
        assert not sleeping.is_gone
        await sleeping.kill()
        sleeping.close()


async def test_one_command_may_have_a_limit_of_its_own(jail: Jailed) -> None:
    own = replace(jail.policy.limits, cpu_time_s=1)
    ran = await jail.run(["sh", "-c", f"({SPIN}) & ({SPIN})"], limits=own, timeout_s=TIMEOUT_S)
    assert (ran.limit_hit, ran.timed_out) == (HIT, False)
