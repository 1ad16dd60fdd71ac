"""The jail beside doing without: a command, the start, fifty at once, an idle one, and throughput."""

import asyncio
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack, contextmanager
from pathlib import Path

from bench.result_row import Row

from hutch.jail.jail_startup import Jailed, open_jail, start_jail
from hutch.jail.launch import seccomp
from hutch.jail.launch.bubblewrap_launch import warden_source
from hutch.jail.launch.jail_uid import Identity, claim_identity
from hutch.jail.launch.visible_system_files import this_system
from hutch.jail.policy import AGENT, WARDEN, arguments, etc_files

CALLS, STARTS, JAILS = 300, 15, 50
OUTPUT_BYTES = 200_000_000


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


@contextmanager
def busy_machine() -> Iterator[None]:
    """As many programs that only compute as there are processors, in sessions of their own."""
    programs = [
        subprocess.Popen(["/bin/sh", "-c", "while :; do :; done"], start_new_session=True)
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for program in programs:
            program.kill()
            program.wait()


async def bwrap_true(directory: Path, identity: Identity) -> None:
    """The time of a jail's own bubblewrap, with `/bin/true` in the warden's place: the same options, files,
    filter and user. Not as root: a jail's is started by an unprivileged user too."""
    with ExitStack() as stack:
        texts = {**etc_files(identity.uid, identity.gid), WARDEN: warden_source()}
        files = {name: memory_file(stack, text.encode()) for name, text in texts.items()}
        filter_fd = memory_file(stack, seccomp.program(seccomp.this_machine(), has_cgroup=True))
        options = arguments(
            AGENT,
            this_system(),
            workspace=str(directory),
            uid=identity.uid,
            gid=identity.gid,
            files=files,
            seccomp_fd=filter_fd,
        )
        words = memory_file(stack, b"".join(word.encode() + b"\0" for word in options))
        process = await asyncio.create_subprocess_exec(
            *("bwrap", "--args", str(words), "--", "/bin/true"),
            cwd="/",
            pass_fds=[*files.values(), filter_fd, words],
            start_new_session=True,
            user=identity.uid if identity.claim else None,
            group=identity.gid if identity.claim else None,
            extra_groups=[] if identity.claim else None,
        )
        assert await process.wait() == 0


def memory_file(stack: ExitStack, data: bytes) -> int:
    fd = os.memfd_create("bench")
    stack.callback(os.close, fd)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


async def starts(directory: Path) -> list[Row]:
    """Opened until ready for a command, and closed until nothing is left, in turns with bubblewrap alone."""
    identity = claim_identity()
    ready, closed, bare = [], [], []
    try:
        for _ in range(STARTS):
            began = time.perf_counter()
            jail = await start_jail(directory)
            ready.append((time.perf_counter() - began) * 1000)
            closed.append(await timed_ms(jail.close))
            bare.append(await timed_ms(lambda: bwrap_true(directory, identity)))
    finally:
        identity.release()
    theirs = statistics.median(bare)
    return [
        Row("jail ready", statistics.median(ready), theirs, "ms", 5, "bwrap … /bin/true, same options"),
        Row("jail closed, nothing left", statistics.median(closed), None, "ms", 50),
    ]


def pss_mb(jail: Jailed) -> float:
    """The memory of an idle jail's own processes, with shared pages by share."""
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
        with busy_machine():
            rates = [
                (await timed_ms(lambda: jailed_output(jail)), await timed_ms(bare_output)) for _ in range(5)
            ]
        ours, theirs = (OUTPUT_BYTES / 1000 / statistics.median(times) for times in zip(*rates, strict=True))
        claim = "200 MB of stdout, every processor busy"
        rows.append(Row(claim, ours, theirs, "MB/s", 0.6, "a bare pipe", at_least=True))
    rows += await starts(directory)
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
