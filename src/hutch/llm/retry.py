"""Patience with a model, the same for every provider.

What may work the next time is tried again, after a pause that grows and is never
the same twice, or as long as the server has asked for. A stream that has gone
silent counts as broken.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from hutch.domain.errors import Unavailable
from hutch.llm.faults import Transient
from hutch.llm.seam import Again, Delta, Finish, Model, Request


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to try."""

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0  # also when a server asks for more: then it is told
    silence_s: float = 120.0  # between two pieces


class PatientModel:
    """A model that is asked again when it makes sense; see `seam.Model`."""

    def __init__(self, model: Model, patience: Patience | None = None) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self._model = model
        self._patience = patience or Patience()

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        for attempt in range(1, self._patience.attempts + 1):
            try:
                async with aclosing(self._model.stream(request)) as pieces:
                    async for piece in self._unless_silent(pieces):
                        yield piece
                        if isinstance(piece, Finish):
                            return
                raise Transient("the stream ended without a finish")
            except Transient as fault:
                wait_s = self._wait_s(attempt, fault)
                if attempt == self._patience.attempts or wait_s > self._patience.longest_wait_s:
                    raise Unavailable(self._give_up(attempt, fault)) from fault
                yield Again(attempt + 1, wait_s, fault.reason)
                await asyncio.sleep(wait_s)

    async def close(self) -> None:
        await self._model.close()

    async def _unless_silent(self, pieces: AsyncGenerator[Delta]) -> AsyncGenerator[Delta]:
        while True:
            try:
                async with asyncio.timeout(self._patience.silence_s):
                    piece = await anext(pieces, None)
            except TimeoutError:
                raise Transient(f"nothing came for {self._patience.silence_s:g} s") from None
            if piece is None:
                return
            yield piece

    def _wait_s(self, attempt: int, fault: Transient) -> float:
        if fault.retry_after_s is not None:
            return fault.retry_after_s
        backoff = min(self._patience.first_wait_s * 2 ** (attempt - 1), self._patience.longest_wait_s)
        return float(backoff * random.uniform(0.5, 1.0))

    def _give_up(self, attempt: int, fault: Transient) -> str:
        tries = "once" if attempt == 1 else f"{attempt} times"
        if fault.status == 429:
            asked = f" It asks to wait {fault.retry_after_s:g} s." if fault.retry_after_s else ""
            return (
                f"{self.name} takes no more requests for now: {fault.reason}.{asked} Tried {tries}. "
                f"Wait, raise the quota with the provider, or choose another model with --model."
            )
        return (
            f"{self.name} did not answer: {fault.reason}. Tried {tries}. "
            f"Look at the provider's status page, or choose another model with --model."
        )
