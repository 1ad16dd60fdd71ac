"""Retries for models, the same for every provider.

A transient error is retried after a random, growing delay, or after the delay that the
server asked for. A silent stream counts as broken, and so does the first empty reply.
"""

import asyncio
import random
from collections.abc import AsyncGenerator
from contextlib import aclosing

from hutch.domain.errors import Unavailable
from hutch.llm.delta_surrogate_replacement import replace_lone_surrogates
from hutch.llm.interface import Again, CallStarted, Delta, Finish, Model, Request, Text
from hutch.llm.transient_error_type import Transient
from hutch.system.lazy_dataclass import dataclass

COMPLETE = ("stop", "calls", "other")  # finish reasons of replies that should not be empty


class Empty(Transient):
    """A reply without text and calls."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long to retry."""

    attempts: int = 6
    first_wait_s: float = 0.5
    max_wait_s: float = 60.0  # when a server asks for more, the run fails instead
    idle_timeout_s: float = 300.0  # between two deltas; some models think for minutes first
    empty_replies: int = 1  # that are retried; the next is accepted


class RetryingModel:
    """Retries another model's transient errors; implements `interface.Model`."""

    def __init__(self, model: Model, policy: RetryPolicy | None = None) -> None:
        self.name = model.name
        self.context_tokens = model.context_tokens
        self._model = model
        self._policy = policy or RetryPolicy()

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        empty_left = self._policy.empty_replies
        for attempt in range(1, self._policy.attempts + 1):
            try:
                async with aclosing(self._try(request, retry_empty=empty_left > 0)) as deltas:
                    async for delta in deltas:
                        yield delta
                return
            except Transient as fault:
                empty_left -= isinstance(fault, Empty)
                wait_s = self._wait_s(attempt, fault)
                if attempt == self._policy.attempts or wait_s > self._policy.max_wait_s:
                    raise Unavailable(self._give_up(attempt, fault)) from fault
                message = self._describe_retry(attempt + 1, wait_s, fault)
                yield Again(attempt + 1, wait_s, fault.reason, message)
                await asyncio.sleep(wait_s)

    async def close(self) -> None:
        await self._model.close()

    async def _try(self, request: Request, *, retry_empty: bool) -> AsyncGenerator[Delta]:
        """One attempt: the reply up to its finish, or a `Transient`."""
        has_content = False
        async with aclosing(self._model.stream(request)) as deltas:
            while delta := await self._next(deltas):
                has_content = has_content or isinstance(delta, Text | CallStarted)
                is_empty = isinstance(delta, Finish) and not has_content and delta.reason in COMPLETE
                if is_empty and retry_empty:
                    raise Empty("the reply was empty")
                yield replace_lone_surrogates(delta)
                if isinstance(delta, Finish):
                    return
        raise Transient("the stream ended without a finish")

    async def _next(self, deltas: AsyncGenerator[Delta]) -> Delta | None:
        try:
            async with asyncio.timeout(self._policy.idle_timeout_s):
                return await anext(deltas, None)
        except TimeoutError:
            raise Transient(f"no data for {self._policy.idle_timeout_s:g} s") from None

    def _wait_s(self, attempt: int, fault: Transient) -> float:
        if fault.retry_after_s:
            return fault.retry_after_s
        backoff = min(self._policy.first_wait_s * 2 ** (attempt - 1), self._policy.max_wait_s)
        return float(backoff * random.uniform(0.5, 1.0))

    def _describe_retry(self, attempt: int, wait_s: float, fault: Transient) -> str:
        match fault.status:
            case 429:
                problem = "accepts no more requests for now (429)"
            case 529:
                problem = "is overloaded (529)"
            case None:
                problem = f"did not answer: {fault.reason.rstrip('.')}"
            case status:
                problem = f"answered with an error ({status})"
        when = f"in {max(1, round(wait_s))} s"
        return f"{self.name} {problem}; retrying {when} (attempt {attempt} of {self._policy.attempts})."

    def _give_up(self, attempt: int, fault: Transient) -> str:
        attempts = "once" if attempt == 1 else f"{attempt} times"
        reason = fault.reason.rstrip(".")
        if fault.status == 429:
            wait = f" It asks to wait {fault.retry_after_s:g} s." if fault.retry_after_s else ""
            return (
                f"{self.name} accepts no more requests for now: {reason}.{wait} Tried {attempts}. "
                f"Wait, raise the quota with the provider, or choose another model."
            )
        return (
            f"{self.name} did not answer: {reason}. Tried {attempts}. "
            f"Check your network and the provider's status page, or choose another model."
        )
