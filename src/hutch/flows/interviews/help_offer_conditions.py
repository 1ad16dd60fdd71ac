"""Offers help unasked: after repeated failure, long debugging, or a solution that works but is slow.

An offer comes at a pause in the work and can be dismissed. It changes no level.
"""

import math
from collections.abc import Sequence
from typing import Literal, Protocol

from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.flows.interviews.struggle_score import ObservedWork
from hutch.system.lazy_dataclass import dataclass

HelpKind = Literal["repeated_failure", "long_debugging", "slow_solution"]
MIN_MEASURED_S = 0.005  # shorter runs say nothing about growth


@dataclass(frozen=True, slots=True)
class HelpOffer:
    """An offer of help, with its reason in a sentence."""

    at_s: float
    kind: HelpKind
    reason: str


@dataclass(frozen=True, slots=True)
class MeasuredGrowth:
    """A solution's running time for inputs of growing size."""

    sizes: tuple[int, ...]
    times_s: tuple[float, ...]
    max_exponent: float  # of a good solution, as the question says

    @property
    def exponent(self) -> float | None:
        """The power of the size that the time grows with; None if it cannot be told from the times."""
        points = [
            (math.log(size), math.log(time_s))
            for size, time_s in zip(self.sizes, self.times_s, strict=True)
            if size > 0 and time_s >= MIN_MEASURED_S
        ]
        if len(points) < 2 or points[0][0] == points[-1][0]:
            return None
        return _slope(points)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    return sum((x - mean_x) * (y - mean_y) for x, y in points) / spread


class Growth(Protocol):
    """How the time of a solution grows with the size of its input."""

    @property
    def exponent(self) -> float | None: ...

    @property
    def max_exponent(self) -> float: ...


class HelpOffers:
    """Decides for one question when to offer help."""

    def __init__(self, policy: AdaptivePolicy, work: ObservedWork) -> None:
        self._rule = policy.help
        self._work = work
        self._quiet_until_s: dict[HelpKind, float] = {}
        self.growth: Growth | None = None  # of the newest solution that passes all visible tests
        self.offered = 0
        self.dismissed = 0

    def dismiss(self, kind: HelpKind, at_s: float) -> None:
        """The candidate dismissed an offer: no other of this kind for a while."""
        self.dismissed += 1
        self._quiet_until_s[kind] = at_s + self._rule.dismissed_cooldown_s

    def decide(self, now_s: float) -> HelpOffer | None:
        """An offer, if one is due."""
        if not self._is_pause(now_s):
            return None
        for kind, reason in self._reasons(now_s):
            if now_s >= self._quiet_until_s.get(kind, 0.0):
                self._quiet_until_s[kind] = now_s + self._rule.cooldown_s
                self.offered += 1
                return HelpOffer(now_s, kind, reason)
        return None

    def _is_pause(self, now_s: float) -> bool:
        after_run = self._work.last_run_s == self._work.last_active_s
        return after_run or now_s - self._work.last_active_s >= self._rule.idle_s

    def _reasons(self, now_s: float) -> list[tuple[HelpKind, str]]:
        rule, work = self._rule, self._work
        found: list[tuple[HelpKind, str]] = []
        if work.all_pass:
            exponent = self.growth.exponent if self.growth else None
            if self.growth and exponent is not None and exponent > self.growth.max_exponent:
                found.append(
                    ("slow_solution", f"Time grows as the input's size to the power of {exponent:.1f}.")
                )
            return found
        failed = work.failed_runs(now_s, rule.failed_runs.window_s)
        if failed >= rule.failed_runs.count:
            minutes = round(rule.failed_runs.window_s / 60)
            found.append(("repeated_failure", f"{failed} test runs failed within {minutes} minutes."))
        worked_s = work.last_active_s - work.progress_s
        if work.repeated and worked_s >= rule.long_debugging_s:
            found.append(
                ("long_debugging", f"No new test has passed in {round(worked_s / 60)} minutes of work.")
            )
        return found
