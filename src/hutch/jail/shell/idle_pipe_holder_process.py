"""A process in the jail that does nothing but hold pipes.

The shell opens its pipes through /proc: the only way to give a running process another descriptor.
"""

import asyncio
import contextlib
from typing import Final

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.command_process import Command
from hutch.jail.interface import Pipe
from hutch.jail.running_jail import Jailed

HOLDER: Final = ("/bin/sh", "-c", "echo $$; exec sleep 2147483647")
START_TIMEOUT_S = 10.0


async def start_holder(jail: Jailed, stdin: bytes | Pipe | None = None) -> tuple[Command, int]:
    """Start a process that holds its standard descriptors; returns it with its pid inside."""
    holder: Command | None = None
    try:
        async with asyncio.timeout(START_TIMEOUT_S):
            holder = await jail.spawn(HOLDER, stdin=stdin, cwd="/")
            assert holder.stdout is not None
            return holder, int(await holder.stdout.read(32))
    except BaseException as error:
        if holder is not None:  # even when the caller was cancelled
            await asyncio.shield(asyncio.ensure_future(end_holder(holder)))
        if not isinstance(error, TimeoutError | ValueError):
            raise
    raise Unavailable(
        "The jail has reached its process limit. End processes that earlier commands left, by a signal to "
        "their id."
    )


async def end_holder(holder: Command) -> None:
    """End the process, when its pipes are open elsewhere or no longer needed."""
    try:
        with contextlib.suppress(HutchError):  # the jail has ended, and the process with it
            await holder.kill()
    finally:
        holder.close()
