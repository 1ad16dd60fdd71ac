"""The report of an interview as a PDF, rendered in a process of its own with little memory and time."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import orjson

from hutch.domain.errors import Unavailable
from hutch.flows.interviews.report_blocks import Block, blocks_to_json

PROGRAM = Path(__file__).with_name("report_pdf_renderer_program.py")
TIMEOUT_S = 180.0  # generous for a busy machine; the process limits its own processor time
MAX_BYTES = 32 * 1024 * 1024
AT_ONCE = asyncio.Semaphore(2)


async def report_pdf(title: str, blocks: Sequence[Block], base: str) -> bytes:
    """The document. `base` is the address of the server, to which its links lead."""
    wanted = orjson.dumps({"title": title, "base": base, "blocks": blocks_to_json(blocks)})
    async with AT_ONCE:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            str(PROGRAM),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                made, errors = await process.communicate(wanted)
        except TimeoutError:
            raise Unavailable(
                f"The PDF was not ready after {TIMEOUT_S:.0f} s. Read the page instead."
            ) from None
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
    if process.returncode or not made.startswith(b"%PDF") or len(made) > MAX_BYTES:
        last = errors.decode(errors="replace").strip().splitlines()[-1:]
        raise Unavailable(f"The PDF could not be made: {' '.join(last)[:200] or 'it is too large'}.")
    return made
