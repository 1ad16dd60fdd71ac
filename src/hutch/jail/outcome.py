"""What becomes of a command: its output while it runs, then its end, or the end of its time."""

import asyncio

from hutch.jail.output import Capture, Pump
from hutch.jail.process import Command
from hutch.jail.seam import Exit, OnOutput


async def run_to_end(
    process: Command, capture: Capture, *, timeout_s: float, on_output: OnOutput | None
) -> tuple[Exit, bool]:
    """How it ended, and whether that was at its timeout. What it leaves behind may hold its output open,
    and is not waited for; a caller who is cancelled takes it along with all it started."""
    assert process.stdout and process.stderr
    pumps = [
        Pump(process.stdout.fd, "stdout", capture, on_output),
        Pump(process.stderr.fd, "stderr", capture, on_output),
    ]
    timed_out = False
    try:
        try:
            async with asyncio.timeout(timeout_s):
                exit_ = await process.wait()
        except TimeoutError:
            timed_out = True
            await process.kill()
            exit_ = await process.wait()
        for pump in pumps:
            pump.drain()
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(process.kill()))
        raise
    finally:
        for pump in pumps:
            pump.stop()
        capture.close()
        process.close()
    for pump in pumps:
        if pump.error is not None:
            raise pump.error
    return exit_, timed_out
