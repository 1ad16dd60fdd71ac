"""Programs of the host that must not outlive us, nor take more than they may.

The kernel ends them with the thread that started them, however that ends, and
bounds their memory and the files they write. It is asked to by two small programs
that become the one that is wanted: what runs between a fork and a start is no
place for Python.
"""

import asyncio
import contextlib
import os
import resource
import signal
from pathlib import Path

PRLIMIT, SETPRIV = "/usr/bin/prlimit", "/usr/bin/setpriv"
MAX_MEMORY_BYTES = 4 * 1024**3
MAX_FILE_BYTES = 64 * 1024**3  # a backstop: a pack of a very large repository is smaller


def limit_command(*words: str | Path, bounded: bool = True, file_bytes: int = MAX_FILE_BYTES) -> list[str]:
    """The command that runs `words` like this; as they are on a machine without util-linux."""
    command = [os.fspath(word) for word in words]
    if os.access(SETPRIV, os.X_OK):
        command = [SETPRIV, "--pdeathsig", "KILL", "--", *command]
    if bounded and os.access(PRLIMIT, os.X_OK):
        memory = _lowest_limit(resource.RLIMIT_AS, MAX_MEMORY_BYTES)
        file = _lowest_limit(resource.RLIMIT_FSIZE, file_bytes)
        core = (
            1 if resource.getrlimit(resource.RLIMIT_CORE)[1] else 0
        )  # with 0 a handler of core dumps is still started
        command = [PRLIMIT, f"--as={memory}", f"--fsize={file}", f"--core={core}", "--", *command]
    return command


async def kill_process_group(process: asyncio.subprocess.Process) -> None:
    """Kill it and all it started, and wait until it is gone, also while we are being cancelled.

    It must lead a group of its own. Its pipes are closed first: what it printed and nobody reads any more
    would be waited for without end.
    """
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    transport = process._transport  # type: ignore[attr-defined]  # there is no other name for it
    for fd in range(3):  # not `transport.close()`, which would take the exit status away from the event loop
        if (pipe := transport.get_pipe_transport(fd)) is not None:
            pipe.close()

    async def end() -> None:
        await process.wait()
        transport.close()  # by itself it would only after another turn of the loop, which may be over by then

    await asyncio.shield(asyncio.ensure_future(end()))


def _lowest_limit(limit: int, wanted: int) -> int:
    """What is wanted, or less where we have less ourselves: nobody may raise that."""
    return min([wanted, *(value for value in resource.getrlimit(limit) if value != resource.RLIM_INFINITY)])
