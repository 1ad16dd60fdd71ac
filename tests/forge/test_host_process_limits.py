"""Child processes end with us, and stay within their limits."""

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.forge.host_git import Git, GitFailed
from hutch.forge.host_process_limits import (
    MAX_FILE_BYTES,
    MAX_MEMORY_BYTES,
    kill_process_group,
    limit_command,
)
from tests.deadline import DEADLINE_S

STARTER = """
import asyncio
from hutch.forge.host_git import Git

asyncio.run(Git({"PATH": "/usr/bin:/bin"}).run("hash-object", "--stdin", stdin=0))
"""


def test_its_limits() -> None:
    ran = subprocess.run(limit_command("/bin/cat", "/proc/self/limits"), capture_output=True, check=True)
    limits = {line[:26].strip(): line[26:].split() for line in ran.stdout.decode().splitlines()}
    assert int(limits["Max address space"][1]) <= MAX_MEMORY_BYTES
    assert int(limits["Max file size"][1]) <= MAX_FILE_BYTES
    # Not 0, which the kernel disregards when a program handles core dumps; unless we may have no more.
    core = "1" if resource.getrlimit(resource.RLIMIT_CORE)[1] else "0"
    assert limits["Max core file size"][:2] == [core, core]


def test_where_we_have_less_ourselves() -> None:
    words = [
        sys.executable,
        "-c",
        "import hutch.forge.host_process_limits as l; print(l.limit_command('/bin/true'))",
    ]
    ran = subprocess.run(["/usr/bin/prlimit", f"--as={2 << 30}", *words], capture_output=True, check=True)
    assert f"--as={2 << 30}" in ran.stdout.decode()


def test_git_ends_with_the_process_that_started_it() -> None:
    """The starter is killed without a chance to tidy up, while its git waits for more to read."""
    with subprocess.Popen([sys.executable, "-c", STARTER], stdin=subprocess.PIPE) as starter:
        child = _wait_for(lambda: _git_of(starter.pid))
        starter.send_signal(signal.SIGKILL)
        starter.wait()
        # Its input is still open: only the kernel can have ended it.
        _wait_for(lambda: not _is_running(child))


@pytest.mark.anyio
async def test_memory_of_git_is_bounded(tmp_path: Path) -> None:
    """A file of which git wants all in memory, and which is larger than it may have."""
    host = Git({"PATH": os.defpath})
    await host.run("init", "--quiet", "--bare", "--", str(tmp_path / "r"))
    with (tmp_path / "large").open("wb") as file:
        file.truncate(MAX_MEMORY_BYTES + (1 << 20))
    words = ("hash-object", "-w", "--path=x", "--", str(tmp_path / "large"))
    with pytest.raises(GitFailed) as failed:
        await host.run(*words, git_dir=tmp_path / "r", settings={"core.bigFileThreshold": "100g"})
    assert isinstance(failed.value, Unavailable)


def _git_of(parent: int) -> int | None:
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, fields = path.read_text().rsplit(")", 1)
        except OSError:
            continue
        if fields.split()[1] == str(parent) and name.endswith("(git"):
            return int(path.parent.name)
    return None


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def _wait_for(ask: object, patience_s: float = DEADLINE_S) -> object:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if found := ask():
            return found
        time.sleep(0.02)
    raise AssertionError("it did not happen")


@pytest.fixture
def reaped_by_the_loop() -> Iterator[None]:
    """Exits are taken by the event loop, as from Python 3.12 on; before, a thread may be faster."""
    if sys.version_info >= (3, 12):
        yield
        return
    asyncio.set_child_watcher(asyncio.PidfdChildWatcher())
    yield
    asyncio.set_child_watcher(None)


@pytest.mark.anyio
@pytest.mark.usefixtures("reaped_by_the_loop")
async def test_exit_status_is_kept_when_the_process_is_dead_before_the_loop_notices() -> None:
    process = await asyncio.create_subprocess_exec(
        *limit_command("/usr/bin/yes"), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    os.killpg(process.pid, signal.SIGKILL)
    _wait_for(lambda: not _is_running(process.pid))  # blocks the loop
    await kill_process_group(process)
    assert process.returncode == -signal.SIGKILL


@pytest.mark.anyio
async def test_a_program_whose_output_is_not_read_is_killed() -> None:
    process = await asyncio.create_subprocess_exec(
        *limit_command("/usr/bin/yes"), stdout=asyncio.subprocess.PIPE, start_new_session=True
    )
    printed = process.stdout._buffer  # type: ignore[union-attr]
    async with asyncio.timeout(DEADLINE_S):
        while len(printed) <= 1 << 17:  # noqa: ASYNC110 (until there is more than is kept for us)
            await asyncio.sleep(0.01)
        await kill_process_group(process)
    assert process.returncode == -signal.SIGKILL
