"""The jail beside doing without: a command, the start, fifty at once, an idle one, and throughput."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path

from bench.row import Row

from hutch.jail.jail import Jailed, open_jail

CALLS, STARTS, JAILS = 300, 15, 50
OUTPUT_BYTES = 200_000_000
BWRAP = (
    *(
        "bwrap",
        "--unshare-user",
        "--unshare-all",
        "--disable-userns",
        "--new-session",
        "--die-with-parent",
        "--cap-drop",
        "ALL",
    ),
    *("--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib"),
    *("--symlink", "usr/lib64", "/lib64", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp"),
    *("--tmpfs", "/home", "--remount-ro", "/", "/bin/true"),
)


async def timed_ms(call: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await call()
    return (time.perf_counter() - started) * 1000


async def bare_true() -> None:
    process = await asyncio.create_subprocess_exec(
        "/bin/true", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    await process.communicate()


async def bare_output() -> None:
    process = await asyncio.create_subprocess_exec(
        "head", "-c", str(OUTPUT_BYTES), "/dev/zero", stdout=subprocess.PIPE, limit=1024 * 1024
    )
    assert process.stdout
    while await process.stdout.read(256 * 1024):
        pass
    await process.wait()


async def jailed_output(jail: Jailed) -> None:
    process = await jail.spawn(["head", "-c", str(OUTPUT_BYTES), "/dev/zero"])
    assert process.stdout
    while await process.stdout.read(256 * 1024):
        pass
    await process.wait()
    process.close()


async def bwrap_true() -> None:
    # Never as root: bubblewrap is started by an unprivileged user here too.
    user = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
    await asyncio.to_thread(subprocess.run, BWRAP, check=True, cwd="/", **user)  # type: ignore[arg-type]


async def start_and_close(directory: Path) -> None:
    async with open_jail(directory):
        pass


def pss_mb(jail: Jailed) -> float:
    """What the processes of an idle jail take that is theirs alone, shared pages by share."""
    total, queue = 0, [jail._launched.process.pid]
    while queue:
        pid = queue.pop()
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            total += int(line.split()[1]) if line.startswith("Pss:") else 0
        queue += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return total / 1024


async def compare(directory: Path) -> list[Row]:
    rows = []
    async with open_jail(directory) as jail:
        pairs = [
            (await timed_ms(lambda: jail.run(["/bin/true"])), await timed_ms(bare_true)) for _ in range(CALLS)
        ]
        ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
        rows.append(Row("/bin/true in a live jail", ours, theirs, "ms", 2, "spawned bare by asyncio"))
        rates = [(await timed_ms(lambda: jailed_output(jail)), await timed_ms(bare_output)) for _ in range(5)]
        ours, theirs = (OUTPUT_BYTES / 1000 / statistics.median(times) for times in zip(*rates, strict=True))
        rows.append(Row("200 MB of stdout", ours, theirs, "MB/s", 0.7, "a bare pipe", at_least=True))
    pairs = [
        (await timed_ms(lambda: start_and_close(directory)), await timed_ms(bwrap_true))
        for _ in range(STARTS)
    ]
    ours, theirs = (statistics.median(times) for times in zip(*pairs, strict=True))
    rows.append(Row("jail opened, ready and closed", ours, theirs, "ms", 5, "bwrap … /bin/true"))
    async with AsyncExitStack() as stack:
        started = time.perf_counter()
        opening = [stack.enter_async_context(open_jail(directory)) for _ in range(JAILS)]
        jails = await asyncio.gather(*opening)
        rows.append(Row(f"{JAILS} jails at once", time.perf_counter() - started, None, "s", 5))
        await asyncio.sleep(1)
        idle = statistics.mean(pss_mb(jail) for jail in jails)
        rows.append(Row(f"an idle jail among {JAILS}, memory (PSS)", idle, None, "MB", 12))
    return rows


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield from asyncio.run(compare(Path(directory)))
