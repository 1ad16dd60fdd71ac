"""The resources that a run has used, compared with its limits."""

import time
from collections.abc import Callable, Sequence
from dataclasses import field

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.dollar_amount_formatting import dollars
from hutch.domain.events import ContextCompacted, Entry, ModelReplied, RunEnded, RunStarted, ToolReturned
from hutch.domain.helper_agent_events import HelperEnded
from hutch.domain.run_limits import LimitName, RunLimits
from hutch.llm.interface import Usage
from hutch.system.lazy_dataclass import dataclass


class LimitFields(BaseModel):
    """Limits of a run, as a user's file sets them."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    turns: int | None = Field(None, ge=1)
    tokens: int | None = Field(None, ge=1)
    cost_usd: float | None = Field(None, gt=0)
    timeout_s: float | None = Field(None, gt=0)

    def for_run(self) -> RunLimits:
        return RunLimits(**self.model_dump())


@dataclass(slots=True)
class Spent:
    """The resources used so far. A resumed run continues from its old counts."""

    turns: int = 0
    usage: Usage = field(default_factory=Usage)
    cost_usd: float = 0.0
    unpriced: bool = False  # a price was unknown, so cost_usd is incomplete
    before_s: float = 0.0  # in earlier processes
    waited_s: float = 0.0  # for users, which is not working time
    helper_turns: int = 0  # helpers count towards the limits, not towards what the run itself has used
    helper_tokens: int = 0
    helper_cost_usd: float = 0.0
    _began: float = field(default_factory=time.monotonic)

    @property
    def duration_s(self) -> float:
        return self.before_s + time.monotonic() - self._began - self.waited_s

    @property
    def cost(self) -> float | None:
        return None if self.unpriced else self.cost_usd

    def add(self, usage: Usage, cost_usd: float | None) -> None:
        """One more turn."""
        self.turns += 1
        self.add_usage(usage, cost_usd)

    def add_usage(self, usage: Usage, cost_usd: float | None) -> None:
        """Add the usage of a request that is not a turn, such as a summary."""
        self.usage += usage
        self.cost_usd += cost_usd or 0.0
        self.unpriced = self.unpriced or cost_usd is None

    def add_helper(self, ended: HelperEnded) -> None:
        """Count the work of a helper."""
        self.helper_turns += ended.turns
        self.helper_tokens += ended.input_tokens + ended.output_tokens
        self.helper_cost_usd += ended.cost_usd or 0.0
        self.unpriced = self.unpriced or ended.cost_usd is None

    @property
    def total_tokens(self) -> int:
        return self.usage.input + self.usage.output + self.helper_tokens

    @property
    def total_cost_usd(self) -> float:
        return self.cost_usd + self.helper_cost_usd

    def remaining(self, limits: RunLimits) -> RunLimits:
        """The part of each limit that is left; 0 if nothing is."""

        def left(limit: float | None, used: float) -> float | None:
            return None if limit is None else max(0.0, limit - used)

        turns = left(limits.turns, self.turns + self.helper_turns)
        tokens = left(limits.tokens, self.total_tokens)
        return RunLimits(
            turns=None if turns is None else int(turns),
            tokens=None if tokens is None else int(tokens),
            cost_usd=left(limits.cost_usd, self.total_cost_usd),
            timeout_s=left(limits.timeout_s, self.duration_s),
        )

    def reached(self, limits: RunLimits) -> LimitName | None:
        """The name of the first limit that is reached."""
        taken: dict[LimitName, float | None] = {
            "turns": self.turns + self.helper_turns,
            "tokens": self.total_tokens,
            "cost_usd": None if self.unpriced else self.total_cost_usd,
            "timeout_s": self.duration_s,
        }
        for name, amount in taken.items():
            limit = getattr(limits, name)
            if limit is not None and amount is not None and amount >= limit:
                return name
        return None

    def describe_reached(self, limits: RunLimits) -> str | None:
        """The limit that is reached, as a sentence."""
        turns, tokens, cost_usd = self.turns + self.helper_turns, self.total_tokens, self.total_cost_usd
        helped = ", with its helpers" if self.helper_turns else ""
        if limits.turns is not None and turns >= limits.turns:
            return f"It took {turns} turn{'s' if turns != 1 else ''}{helped}, which is the limit."
        if limits.tokens is not None and tokens >= limits.tokens:
            return f"It took {tokens:,} tokens{helped}; the limit is {limits.tokens:,}."
        if limits.cost_usd is not None and cost_usd >= limits.cost_usd:
            return too_costly(cost_usd, limits.cost_usd)
        if limits.timeout_s is not None and self.duration_s >= limits.timeout_s:
            return too_long(limits.timeout_s)
        return None


@dataclass(frozen=True, slots=True)
class BudgetOfRun:
    """The remaining budget of a run, for its helpers."""

    spent: Spent
    limits: Callable[[], RunLimits]  # a user may change them meanwhile

    def remaining(self) -> RunLimits:
        return self.spent.remaining(self.limits())

    def charge(self, ended: HelperEnded) -> None:
        self.spent.add_helper(ended)


def spent_before(entries: Sequence[Entry]) -> Spent:
    """The resources that a run has used, by its log.

    A killed process records no total time: then the times of its steps count, and the idle time until the
    run was resumed does not.
    """
    spent = Spent()
    for entry in entries:
        event = entry.event
        match event:
            case RunStarted():
                spent = Spent()
            case ModelReplied():
                spent.add(_usage(event), event.cost_usd)
                spent.before_s += event.duration_s
            case ToolReturned():
                spent.before_s += event.duration_s
            case ContextCompacted():
                spent.add_usage(_usage(event), event.cost_usd)
            case HelperEnded():
                spent.add_helper(event)
            case RunEnded():
                spent.before_s = event.duration_s
    return spent


def _usage(event: ModelReplied | ContextCompacted) -> Usage:
    return Usage(input=event.input_tokens, cached=event.cached_tokens, output=event.output_tokens)


def too_costly(cost_usd: float, limit_usd: float) -> str:
    """The sentence for a run that reached its cost limit."""
    if not limit_usd and not cost_usd:
        return "The cost limit is $0, so the model was not called. Set a higher limit, or none."
    return f"It cost {dollars(cost_usd)}; the limit is {dollars(limit_usd)}."


def too_long(timeout_s: float) -> str:
    """The sentence for a run that reached its time limit."""
    span = f"{timeout_s / 60:.0f} minutes" if timeout_s >= 120 else f"{timeout_s:g} seconds"
    return f"It took {span}, which is the limit."
