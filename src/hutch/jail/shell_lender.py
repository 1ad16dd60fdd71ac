"""A process in the jail that does nothing but hold a pipe, from which a command is to read.

A shell opens it through /proc, the only way to give a running process another
descriptor.
"""

import asyncio
import contextlib
from typing import Final

from hutch.domain.errors import HutchError, Unavailable
from hutch.jail.jailed import Jailed
from hutch.jail.process import Command
from hutch.jail.seam import Pipe

LENDER: Final = ("/bin/sh", "-c", "echo $$; exec sleep 2147483647")
START_S = 10.0


async def lend(jail: Jailed, stdin: bytes | Pipe | None) -> tuple[Command, int]:
    """The process, and its pid inside."""
    lender: Command | None = None
    try:
        async with asyncio.timeout(START_S):
            lender = await jail.spawn(LENDER, stdin=stdin, cwd="/")
            assert lender.stdout is not None
            return lender, int(await lender.stdout.read(32))
    except BaseException as error:
        if lender is not None:  # be it that nobody waits for it any more
            await asyncio.shield(asyncio.ensure_future(dismiss(lender)))
        if not isinstance(error, TimeoutError | ValueError):
            raise
    raise Unavailable("No room for another process in the jail. End some that run there.")


async def dismiss(lender: Command) -> None:
    """Its pipes are open where they are needed, or not needed any more."""
    try:
        with contextlib.suppress(HutchError):  # of a jail that is gone, so is the lender
            await lender.kill()
    finally:
        lender.close()
