"""Limits for programs that run on the host: lifetime, memory and file size.

The kernel kills them when the thread that started them ends, and limits their memory
and the files they write. Two small programs, setpriv and prlimit, set this up and then
execute the program: Python code must not run between fork and exec.
"""

import asyncio
import contextlib
import os
import resource
import signal
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.system.uncancellable_work import run_to_end

PRLIMIT, SETPRIV = "/usr/bin/prlimit", "/usr/bin/setpriv"
MAX_MEMORY_BYTES = 4 * 1024**3
MAX_FILE_BYTES = 64 * 1024**3  # a last resort: packs of very large repositories are smaller


def limit_command(
    *words: str | Path, limit_resources: bool = True, file_bytes: int = MAX_FILE_BYTES
) -> list[str]:
    """The command line that runs `words` with limits; unchanged on a machine without util-linux."""
    command = [os.fspath(word) for word in words]
    if os.access(SETPRIV, os.X_OK):
        command = [SETPRIV, "--pdeathsig", "KILL", "--", *command]
    if limit_resources and os.access(PRLIMIT, os.X_OK):
        memory = _lowest_limit(resource.RLIMIT_AS, MAX_MEMORY_BYTES)
        file = _lowest_limit(resource.RLIMIT_FSIZE, file_bytes)
        core = (
            1 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 0
        )  # with 0, the kernel would still start a core dump handler
        command = [PRLIMIT, f"--as={memory}", f"--fsize={file}", f"--core={core}", "--", *command]
    return command


@asynccontextmanager
async def process_group(
    starting: Coroutine[Any, Any, asyncio.subprocess.Process],
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start a process that leads its own group, and kill the whole group if it runs at the end of the block.

    This includes a caller that is cancelled during the start: asyncio would then kill only the leader, and
    wait for as long as a child holds its pipes.
    """
    started = asyncio.ensure_future(starting)
    try:
        process = await run_to_end(started)
        yield process
    finally:
        has_started = started.done() and not started.cancelled() and started.exception() is None
        if has_started and started.result().returncode is None:
            await kill_process_group(started.result())


async def kill_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process and its children, and wait until it has ended, even while being cancelled.

    It must lead its own process group. Its pipes are closed first: otherwise unread output would make the
    wait endless.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    transport = process._transport  # type: ignore[attr-defined]  # asyncio has no public name for it
    for fd in range(3):  # not `transport.close()`, which would hide the exit status from the event loop
        if (pipe := transport.get_pipe_transport(fd)) is not None:
            pipe.close()

    async def end() -> None:
        await process.wait()
        transport.close()  # it would otherwise close one loop iteration later, when the loop may have ended

    await asyncio.shield(asyncio.ensure_future(end()))


def _lowest_limit(limit: int, value: int) -> int:
    """The value, or our own limit if that is lower: a process cannot raise its own limit."""
    return min([value, *(own for own in resource.getrlimit(limit) if own != resource.RLIM_INFINITY)])
