"""Limits and hosts of an open jail are changed, and everything in it goes on."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import Unavailable
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.interface import LimitHit
from hutch.jail.jail_startup import Jailed, open_jail, start_jail
from hutch.jail.limits.limit_enforcement import can_limit_cpus
from hutch.jail.policy import AGENT, MIB, Policy
from hutch.jail.shell.shared_jails_and_shells import Shells
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio


def changed(jail: Jailed, **limits: Any) -> Policy:
    return replace(jail.policy, limits=replace(jail.policy.limits, **limits))


async def test_processes_that_run_already_get_the_lower_limits(jail: Jailed) -> None:
    shell = Shells(jail).shell("agent", program="/bin/bash")
    await shell.run("kept=1")
    await jail.change(changed(jail, open_files=300, file_bytes=5 * MIB))
    assert jail.waiting == ()
    asked = await shell.run("echo $kept; ulimit -Hn; ulimit -Sn; ulimit -f; sh -c 'ulimit -n'")
    assert asked.stdout == "1\n300\n300\n5120\n300\n"
    assert (await jail.run(["sh", "-c", "ulimit -n"])).stdout == b"300\n"
    raised = await shell.run("ulimit -n 400")
    assert raised.exit_code != 0


async def test_a_limit_that_no_process_can_raise_waits_for_a_new_jail(jail: Jailed) -> None:
    before = jail.policy.limits
    await jail.change(changed(jail, open_files=before.open_files + 1, command_timeout_s=5.0))
    assert jail.waiting == ("open_files",)
    assert jail.policy.limits == replace(before, command_timeout_s=5.0)


async def test_less_memory_is_enforced_at_once(workspace: Path) -> None:
    async with open_jail(workspace, AGENT) as jail:
        await jail.change(changed(jail, memory_bytes=200 * MIB, tmp_bytes=MIB, home_bytes=MIB, shm_bytes=MIB))
        assert jail.waiting == ()
        code = "x = bytearray(400 * 1024 * 1024); print(len(x))"
        ran = await jail.run(["/usr/bin/python3", "-c", code], timeout_s=60)
        assert ran.stdout == b"" and (ran.limit_hit is None or ran.limit_hit.limit == "memory_bytes")
        assert (await jail.run(["echo", "usable"])).stdout == b"usable\n"


async def test_fewer_processes_are_allowed_at_once(jail: Jailed) -> None:
    await jail.change(changed(jail, processes=20))
    script = "for i in $(seq 40); do sleep 100 & done 2>/dev/null; jobs -p | wc -l"
    ran = await jail.run(["bash", "-c", script], timeout_s=10)
    counted = int(ran.stdout or b"0")
    assert counted < 20


async def test_the_workspace_may_grow_by_less(jail: Jailed) -> None:
    await jail.change(changed(jail, workspace_growth_bytes=4 * MIB))
    ran = await jail.run(["dd", "if=/dev/zero", "of=/workspace/big", "bs=1M", "count=64"], timeout_s=60)
    async with asyncio.timeout(DEADLINE_S):
        while ran.limit_hit is None:  # the copy may end before the next look
            ran = await jail.run(["sleep", "1"], timeout_s=DEADLINE_S)
    assert ran.limit_hit == LimitHit("workspace_growth_bytes", "4 MiB")


async def test_a_longer_timeout_than_the_jails_total_is_cut_and_named(jail: Jailed) -> None:
    await jail.change(changed(jail, command_total_s=1.0))
    ran = await jail.run(["sleep", "60"], timeout_s=30)
    assert ran.limit_hit == LimitHit("command_total_s", "1 s")
    shell = Shells(jail).shell("agent")
    asked = await shell.run("sleep 60", timeout_s=30)
    assert (asked.limit_hit, asked.timed_out) == (LimitHit("command_total_s", "1 s"), True)
    background = await shell.run("sleep 60", yield_s=0)
    assert background.running
    shells = shell.background
    ended = await shells.get(background.id or "").wait(60)
    assert ended.limit_hit == LimitHit("command_total_s", "1 s")


async def test_the_agents_command_ends_after_the_total_even_if_it_prints(jail: Jailed) -> None:
    await jail.change(changed(jail, command_total_s=2.0))
    shell = Shells(jail).shell("agent")
    printing = "while :; do echo .; sleep 0.1; done"
    ran = await shell.run(printing, yield_s=60, silence_s=30)
    assert ran.limit_hit == LimitHit("command_total_s", "2 s")


async def test_a_jail_whose_processors_cannot_be_limited_does_not_open(workspace: Path) -> None:
    limited = replace(AGENT, limits=replace(AGENT.limits, cpus=0.5))
    if can_limit_cpus():
        async with open_jail(workspace, limited) as jail:
            await jail.change(changed(jail, cpus=None))
            assert (await jail.run(["echo", "usable"])).stdout == b"usable\n"
    else:
        with pytest.raises(Unavailable, match="no cgroup with the cpu controller"):
            await start_jail(workspace, limited)


async def test_hosts_are_allowed_and_withdrawn_while_a_shell_lives(workspace: Path) -> None:
    served = await asyncio.start_server(_greet, "127.0.0.1", 0)
    port = served.sockets[0].getsockname()[1]
    outside = Outside(also_allow_networks=("127.0.0.0/8",))
    ask = f"curl -s --max-time 20 http://127.0.0.1:{port}/ ; echo $?"
    ask = f"curl -s --noproxy none.invalid --max-time 20 http://127.0.0.1:{port}/; echo $?"
    async with served, open_jail(workspace, AGENT, outside=outside) as jail:
        shell = Shells(jail).shell("agent", program="/bin/bash")
        assert "hello" not in (await shell.run(ask, timeout_s=60)).stdout
        await jail.change(replace(jail.policy, network=(f"127.0.0.1:{port}",)))
        assert (await shell.run(ask, timeout_s=60)).stdout == "hello0\n"
        await jail.change(replace(jail.policy, network=()))
        assert "hello" not in (await shell.run(ask, timeout_s=60)).stdout


async def _greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.readuntil(b"\r\n\r\n")
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
    await writer.drain()
    writer.close()
