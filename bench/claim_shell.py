"""The persistent shell in a jail, compared with a plain `/bin/sh` on two pipes, in the same event loop.

The alternatives have no jail and no nonce, and a syntax error ends them. The first
is minimal: it writes a command and an `echo`, and waits for that line on standard
output. The second also separates standard error and reports the directory, as ours
does.
"""

import asyncio
import secrets
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.result_row import Row

from hutch.jail import open_shell
from hutch.jail.shell.shell import Shell

ROUNDS = 9
CALLS = 500
OUTPUT_BYTES = 100_000_000


@asynccontextmanager
async def bare_shell() -> AsyncIterator[asyncio.subprocess.Process]:
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        "/bin/sh", stdin=pipe, stdout=pipe, stderr=pipe, limit=1024 * 1024
    )
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


async def full_call(process: asyncio.subprocess.Process, command: str) -> tuple[bytes, bytes, int, bytes]:
    assert process.stdin and process.stdout and process.stderr
    end = secrets.token_hex(16)
    process.stdin.write(
        f"{command} </dev/null\nprintf '%s %d %s\\n' {end} $? \"$PWD\"; echo {end} >&2\n".encode()
    )
    out = (await process.stdout.readuntil(end.encode()))[: -len(end)]
    code, _, cwd = (await process.stdout.readline()).strip().partition(b" ")
    err = await process.stderr.readuntil(f"{end}\n".encode())
    return out, err[: -len(end) - 1], int(code), cwd


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


async def turns(shell: Shell, bare: asyncio.subprocess.Process, command: str) -> tuple[float, float, float]:
    """Microseconds of one call, of ours and both alternatives, measured alternately."""
    ours, minimal, full = [], [], []
    for _ in range(ROUNDS):
        ours.append(await timed(lambda: shell.run(command), CALLS))
        minimal.append(await timed(lambda: bare_call(bare, command), CALLS))
        full.append(await timed(lambda: full_call(bare, command), CALLS))
    return statistics.median(ours) * 1e6, statistics.median(minimal) * 1e6, statistics.median(full) * 1e6


async def compare(directory: Path) -> list[Row]:
    async with open_shell("bench", workspace=directory) as shell, bare_shell() as bare:
        await shell.run("true")
        rows = []
        for what, command in (("builtin", "true"), ("program", "/bin/true")):
            ours, minimal, full = await turns(shell, bare, command)
            claim = f"shell round trip, {what}"
            rows.append(Row(claim, ours, minimal, "µs", 1.5, "bare /bin/sh, two pipes"))
            rows.append(Row(claim, ours, full, "µs", 1.5, "bare /bin/sh, stderr apart, cwd"))
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
        Path(directory).chmod(0o755)  # the jail may have another user
        yield from asyncio.run(compare(Path(directory)))
