"""The persistent shell in a jail beside a bare `/bin/sh` at the end of two pipes, in the same event loop.

The alternative does the least that can be called a shell: it writes a command
and an `echo`, and waits for that line on standard output. It has no walls, no
nonce, no directory, no standard error of its own, and a syntax error ends it.
"""

import asyncio
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.row import Row

from hutch.jail import open_shell
from hutch.jail.shell import Shell

ROUNDS = 9
CALLS = 500
OUTPUT_BYTES = 100_000_000


@asynccontextmanager
async def bare_shell() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec("/bin/sh", stdin=pipe, stdout=pipe, limit=1024 * 1024)
    try:
        yield process
    finally:
        process.kill()
        await process.communicate()


async def bare_call(process: asyncio.subprocess.Process, command: str) -> int:
    assert process.stdin and process.stdout
    process.stdin.write(f"{command} </dev/null\necho done $?\n".encode())
    while not (line := await process.stdout.readline()).startswith(b"done "):
        pass
    return int(line[5:])


async def bare_output(process: asyncio.subprocess.Process, count: int) -> None:
    assert process.stdin and process.stdout
    process.stdin.write(f"head -c {count} /dev/zero\n".encode())
    while count > 0:
        count -= len(await process.stdout.read(256 * 1024))


async def timed(call: Callable[[], Awaitable[object]], calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        await call()
    return (time.perf_counter() - started) / calls


async def pairs(shell: Shell, bare: asyncio.subprocess.Process, command: str) -> tuple[float, float]:
    """Microseconds of one call, ours and bare, measured in turns."""
    ours, theirs = [], []
    for _ in range(ROUNDS):
        ours.append(await timed(lambda: shell.run(command), CALLS))
        theirs.append(await timed(lambda: bare_call(bare, command), CALLS))
    return statistics.median(ours) * 1e6, statistics.median(theirs) * 1e6


async def compare(directory: Path) -> list[Row]:
    async with open_shell("bench", workspace=directory) as shell, bare_shell() as bare:
        await shell.run("true")
        rows = []
        for what, command in (("builtin", "true"), ("program", "/bin/true")):
            ours, theirs = await pairs(shell, bare, command)
            rows.append(Row(f"shell round trip, {what}", ours, theirs, "µs", 1.5, "bare /bin/sh, two pipes"))
        command = f"head -c {OUTPUT_BYTES} /dev/zero"
        ours_s, theirs_s = [], []
        for _ in range(3):
            ours_s.append(await timed(lambda: shell.run(command), 1))
            theirs_s.append(await timed(lambda: bare_output(bare, OUTPUT_BYTES), 1))
        rate = OUTPUT_BYTES / 1e6
        rows.append(
            Row(
                "100 MB of output, capped, 64 MiB of it in a file",
                rate / statistics.median(ours_s),
                rate / statistics.median(theirs_s),
                "MB/s",
                0.7,
                "asyncio reading a bare pipe",
                at_least=True,
            )
        )
        started = time.perf_counter()
        for _ in range(20):
            await shell.run("exit")
            await shell.run("true")
        again = (time.perf_counter() - started) / 20 * 1e3
        rows.append(Row("a lost shell, and a command in the new one", again, None, "ms", 15.0))
        return rows


def measure() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="hutch-bench-") as directory:
        Path(directory).chmod(0o755)  # the jail's user may be another
        yield from asyncio.run(compare(Path(directory)))
