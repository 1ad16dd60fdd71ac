"""A workspace never exceeds its quota, by any writer."""

import asyncio
import os
from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import AGENT
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from hutch.workspace.workspace_quota import Quota, Usage
from tests.deadline import DEADLINE_S
from tests.workspace.preparation_fixtures import HOST, MEMORY, make_home, make_project

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@pytest.fixture
def home(tmp_path: Path) -> Home:
    make_project(tmp_path / "project")
    return make_home(tmp_path)


def options(mode: str) -> Options:
    return Options(mode=mode, quota_bytes=6 * MIB, quota_files=400)


@pytest.mark.parametrize("mode", ["copy", "overlay"])
async def test_what_counts_is_what_the_workspace_adds(home: Home, tmp_path: Path, mode: str) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options(mode))
    opened = await open_workspace(home, "w")
    quota = Quota(opened)
    before = quota.measure_usage()
    assert (before == Usage(0, 0)) == (mode == "overlay")
    async with open_jail(opened.place) as jail:
        await jail.run(["sh", "-c", "head -c 1000000 /dev/urandom > new; mkdir d; sync"])
    after = quota.measure_usage()
    assert after.files - before.files == 2
    assert 1_000_000 <= after.bytes - before.bytes < 1_100_000
    opened.close()


@pytest.mark.parametrize("mode", ["copy", "overlay"])
@pytest.mark.parametrize(
    ("script", "limit", "output"),
    [
        (
            "head -c 60000000 /dev/zero > big; sleep 1000",
            "workspace.quota_bytes",
            r"Workspace is .* MiB, at or over its 6 MiB quota. Delete files or raise workspace.quota_bytes\.",
        ),
        (
            "mkdir many; i=0; while [ $i -lt 3000 ]; do : > many/$i; i=$((i+1)); done; sleep 1000",
            "workspace.quota_files",
            r"Workspace has \d+ files, at or over its quota of 400. Delete files or raise workspace.quota_f",
        ),
    ],
    ids=["bytes", "files"],
)
async def test_a_jail_that_writes_too_much_is_stopped_with_a_reason(
    home: Home, tmp_path: Path, mode: str, script: str, limit: str, output: str
) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options(mode))
    opened = await open_workspace(home, "w")
    quota = Quota(opened)
    policy = quota.cap_policy(AGENT)
    async with open_jail(opened.place, policy) as jail:
        ran = await jail.run(["sh", "-c", script], timeout_s=DEADLINE_S)
        assert ran.limit_hit is not None
        error = quota.explain(ran.limit_hit, AGENT)
        with pytest.raises(LimitReached, match=output):
            raise error
        assert error.limit == limit
        # It can go on, with less. The clean-up may be stopped as well, as long as there is too much.
        async with asyncio.timeout(DEADLINE_S):
            while (await jail.run(["sh", "-c", "rm -rf big many; echo ok"])).stdout != b"ok\n":
                pass
    quota.check_space(more_bytes=1000)
    opened.close()


async def test_a_limit_of_the_jail_itself_is_reported_as_that(home: Home, tmp_path: Path) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST)
    opened = await open_workspace(home, "w")
    quota = Quota(opened)
    async with open_jail(opened.place, quota.cap_policy(AGENT)) as jail:
        ran = await jail.run(["sleep", "5"], timeout_s=0.2)
    assert quota.explain(ran.limit_hit, AGENT).limit == "command_timeout_s"
    opened.close()


@pytest.mark.serial  # others that free the disk meanwhile hide the growth, until it is measured anew
@pytest.mark.parametrize("mode", ["copy", "overlay"])
async def test_the_host_asks_before_it_writes(home: Home, tmp_path: Path, mode: str) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options(mode))
    opened = await open_workspace(home, "w")
    quota = Quota(opened)
    quota.check_space(more_bytes=MIB, more_files=1)
    with pytest.raises(LimitReached, match="over its 6 MiB quota"):
        quota.check_space(more_bytes=7 * MIB)
    with pytest.raises(LimitReached, match="over its quota of 400"):
        quota.check_space(more_files=401)
    for number in range(5):
        fd = opened.directory.open(f"f{number}", os.O_WRONLY | os.O_CREAT)
        os.write(fd, os.urandom(MIB))
        os.fsync(fd)
        os.close(fd)
    with pytest.raises(LimitReached):
        quota.check_space(more_bytes=2 * MIB)
    opened.directory.remove("f0")
    opened.directory.remove("f1")
    quota.check_space(more_bytes=2 * MIB)  # measured anew, since it is near
    opened.close()


async def test_what_was_granted_and_not_yet_written_counts(home: Home, tmp_path: Path) -> None:
    await prepare(home, "w", tmp_path / "project", git=HOST, options=options("overlay"))
    opened = await open_workspace(home, "w")
    quota = Quota(opened)
    quota.check_space(more_bytes=MIB)
    used = quota._granted
    assert used == Usage(MIB, 0)
    opened.close()


async def test_memory_is_asked_of_the_kernel(home: Home, tmp_path: Path) -> None:
    await prepare(home, "m", tmp_path / "project", git=HOST, options=MEMORY)
    opened = await open_workspace(home, "m")
    quota = Quota(opened)
    assert quota.measure_usage().bytes < 100_000
    async with open_jail(opened.place, quota.cap_policy(AGENT)) as jail:
        ran = await jail.run(["sh", "-c", "head -c 60000000 /dev/zero > big; stat -c %s big"])
    assert b"No space left on device" in ran.stderr and int(ran.stdout) <= 8 * MIB
    with pytest.raises(LimitReached, match="8 MiB quota"):
        quota.check_space(more_bytes=MIB)
    opened.close()
