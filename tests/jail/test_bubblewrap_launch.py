"""A jail starts and ends completely, whatever happens to its Hutch."""

import asyncio
import contextlib
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.jail.jail_startup import open_jail, start_jail
from hutch.jail.policy import Policy

HOST = """
import asyncio, pathlib, sys
from hutch.jail.jail_startup import open_jail
async def main():
    async with open_jail(pathlib.Path(sys.argv[1])) as jail:
        await jail.run(["sh", "-c", "setsid -f sleep 8001; trap '' TERM; setsid -f sh -c 'sleep 8001'"])
        process = await jail.spawn(["sleep", "8001"])
        print(jail.warden_pid, flush=True)
        await process.wait()
asyncio.run(main())
"""


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_killing_hutch_ends_its_jails(workspace: Path, number: int) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(workspace)], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        warden = int(host.stdout.readline())
        inside = Path(f"/proc/{warden}/task/{warden}/children").read_text().split()
        assert alive(warden) and inside
        host.send_signal(number)
    deadline = time.monotonic() + 60
    while any(alive(pid) for pid in (warden, *map(int, inside))) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not any(alive(pid) for pid in (warden, *map(int, inside)))


def test_groups_of_a_killed_hutch_are_swept_by_the_next(workspace: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOST, str(workspace)], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        host.stdout.readline()
        host.kill()
    groups = [path for path in Path("/sys/fs/cgroup").glob(f"**/hutch.{host.pid}.*") if path.is_dir()]
    deadline = time.monotonic() + 60
    while any(_members(group) for group in groups):
        assert time.monotonic() < deadline, "the jail of a killed host continues"
        time.sleep(0.01)
    script = HOST.replace("await process.wait()", "return")
    subprocess.run([sys.executable, "-c", script, str(workspace)], check=True, capture_output=True)
    left = [path for path in Path("/sys/fs/cgroup").glob(f"**/hutch.{host.pid}.*") if path.is_dir()]
    assert left == []


@pytest.mark.anyio
async def test_descriptors_are_released(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        await jail.run(["true"])
    before = descriptors()
    for _ in range(5):
        async with open_jail(workspace) as jail:
            await jail.run(["sh", "-c", "head -c 3000000 /dev/zero"])
            (await jail.spawn(["sleep", "9"])).close()
    assert descriptors() <= before  # fewer, when a jail of another test was still closing


@pytest.mark.anyio
async def test_opening_can_be_cancelled_at_any_moment(workspace: Path) -> None:
    await (await start_jail(workspace)).close()
    before = descriptors()
    for delay_s in (0, 0.001, 0.003, 0.006, 0.01, 0.015, 0.02, 0.03):
        opening = asyncio.create_task(start_jail(workspace))
        await asyncio.sleep(delay_s)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await (await opening).close()
    async with asyncio.timeout(60):  # a walk that was under way keeps its descriptors until it ends
        while descriptors() > before:  # noqa: ASYNC110 (given back by threads)
            await asyncio.sleep(0.05)


@pytest.mark.anyio
async def test_errors_of_bubblewrap_are_reported(workspace: Path) -> None:
    with pytest.raises(Unavailable, match="did not start: bwrap: Can't find source path /nowhere/at/all"):
        async with open_jail(workspace, Policy(readonly=("/nowhere/at/all",))):
            pass


@pytest.mark.anyio
async def test_twenty_jails_at_once(workspace: Path) -> None:
    jails = await asyncio.gather(*(start_jail(workspace) for _ in range(20)))
    ran = await asyncio.gather(*(jail.run(["hostname"]) for jail in jails))
    assert {each.stdout for each in ran} == {b"hutch\n"}
    await asyncio.gather(*(jail.close() for jail in jails))
    assert not any(alive(jail.warden_pid) for jail in jails)


@pytest.mark.anyio
async def test_commands_inherit_no_limit_of_ours(workspace: Path) -> None:
    async with open_jail(workspace) as jail:
        ours = resource.getrlimit(resource.RLIMIT_NOFILE)
        result = (await jail.run(["cat", "/proc/self/limits"])).stdout.decode()
    seen = {line[:26].strip(): line[26:].split()[:2] for line in result.splitlines()}
    assert (seen["Max realtime priority"], seen["Max nice priority"]) == (["0", "0"], ["0", "0"])
    most = {"Max locked memory": 8 << 20, "Max msgqueue size": 800 << 10, "Max pending signals": 4096}
    # Not 0, with which the kernel still hands the memory to a program of the host's as root.
    core = "1" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "0"
    assert seen["Max core file size"] == [core, core]
    for name, value in most.items():
        assert max(map(int, seen[name])) <= value, name
    assert ours[0] == min(ours[1], 1 << 20)  # a jail is refused descriptors before we are
    assert int(seen["Max open files"][1]) <= ours[0] * 3 // 4


def _members(group: Path) -> str:
    try:
        return (group / "cgroup.procs").read_text()
    except FileNotFoundError:  # another Hutch of this machine has swept it
        return ""
