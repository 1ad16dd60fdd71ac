"""Stops the programs in a jail during a pause, so that nothing a user left running works meanwhile.

The clock of an interview stands during a pause: a program that a candidate has started must not use that
time. Stopped programs get no signal that they can see, and continue where they were. The pause of an
ordinary session stops only the agent.
"""

import asyncio
from contextlib import ExitStack

import structlog

from hutch.jail.limits.freeze_while_counting import freeze

ATTEMPTS = 10  # each of about a second: many processes on a busy machine may need more than one
logger = structlog.get_logger()


class StoppedPrograms:
    """The programs of one jail that are stopped until `resume`."""

    def __init__(self, warden: int) -> None:
        self._warden = warden
        self._held = ExitStack()
        self._lock = asyncio.Lock()

    async def stop(self) -> bool:
        """Stop all programs that run now. Returns False if some still run."""
        async with self._lock:
            for _ in range(ATTEMPTS):
                if await asyncio.to_thread(self._held.enter_context, freeze(self._warden)):
                    return True
            logger.warning("session.programs_not_stopped", warden=self._warden)
            return False

    async def resume(self) -> None:
        """Let them continue."""
        async with self._lock:
            await asyncio.to_thread(self._held.close)
