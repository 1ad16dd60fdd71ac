"""Patience with a model, the same for every provider.

What may work the next time is tried again, after a pause that grows and is never
the same twice, or as long as the server has asked for. A stream that has gone
silent counts as broken, and so does the first reply that says nothing.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass

from hutch.domain.errors import Unavailable
from hutch.llm.errors import Transient
from hutch.llm.interface import Again, CallStarted, Delta, Finish, Model, Request, Text
from hutch.llm.lone_surrogates import writable

WHOLE = ("stop", "calls", "other")  # ends after which something should have been said


class Empty(Transient):
    """A reply that says nothing and wants nothing."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How long to try."""

    attempts: int = 6
    first_wait_s: float = 0.5
    longest_wait_s: float = 60.0  # also when a server asks for more: then it is told
    silence_s: float = 300.0  # between two pieces; some think for minutes before they say a word
    empty_replies: int = 1  # that are asked for again; the next is believed


class PatientModel:
    """A model that is asked again when it makes sense; see `seam.Model`."""

    def __init__(self, model: Model, patience: RetryPolicy | None = None) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self._model = model
        self._patience = patience or RetryPolicy()

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        doubts = self._patience.empty_replies
        for attempt in range(1, self._patience.attempts + 1):
            try:
                async with aclosing(self._try(request, doubt_empty=doubts > 0)) as pieces:
                    async for piece in pieces:
                        yield piece
                return
            except Transient as fault:
                doubts -= isinstance(fault, Empty)
                wait_s = self._wait_s(attempt, fault)
                if attempt == self._patience.attempts or wait_s > self._patience.longest_wait_s:
                    raise Unavailable(self._give_up(attempt, fault)) from fault
                yield Again(attempt + 1, wait_s, fault.reason)
                await asyncio.sleep(wait_s)

    async def close(self) -> None:
        await self._model.close()

    async def _try(self, request: Request, *, doubt_empty: bool) -> AsyncGenerator[Delta]:
        """The reply up to its finish, or a fault."""
        something = False
        async with aclosing(self._model.stream(request)) as pieces:
            while piece := await self._next(pieces):
                something = something or isinstance(piece, Text | CallStarted)
                if isinstance(piece, Finish) and doubt_empty and not something and piece.reason in WHOLE:
                    raise Empty("the reply was empty")
                yield writable(piece)
                if isinstance(piece, Finish):
                    return
        raise Transient("the stream ended without a finish")

    async def _next(self, pieces: AsyncGenerator[Delta]) -> Delta | None:
        try:
            async with asyncio.timeout(self._patience.silence_s):
                return await anext(pieces, None)
        except TimeoutError:
            raise Transient(f"nothing came for {self._patience.silence_s:g} s") from None

    def _wait_s(self, attempt: int, fault: Transient) -> float:
        if fault.retry_after_s:
            return fault.retry_after_s
        backoff = min(self._patience.first_wait_s * 2 ** (attempt - 1), self._patience.longest_wait_s)
        return float(backoff * random.uniform(0.5, 1.0))

    def _give_up(self, attempt: int, fault: Transient) -> str:
        tries = "once" if attempt == 1 else f"{attempt} times"
        reason = fault.reason.rstrip(".")
        if fault.status == 429:
            asked = f" It asks to wait {fault.retry_after_s:g} s." if fault.retry_after_s else ""
            return (
                f"{self.name} takes no more requests for now: {reason}.{asked} Tried {tries}. "
                f"Wait, raise the quota with the provider, or choose another model."
            )
        return (
            f"{self.name} did not answer: {reason}. Tried {tries}. "
            f"Look at your network and the provider's status page, or choose another model."
        )
