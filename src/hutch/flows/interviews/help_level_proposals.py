"""Proposes another level of help when a candidate struggles, or no longer does.

A proposal is never applied here: an assessor or the candidate accepts or declines it. Two thresholds, a time
that the score must hold, and cooldowns that grow keep levels from alternating.
"""

from typing import Literal

from hutch.domain.interview_question import Level
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy
from hutch.flows.interviews.struggle_score import ObservedWork, StruggleScore
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LevelProposal:
    """A change of the level by one step, with the reason in a sentence."""

    at_s: float
    direction: Literal["up", "down"]
    from_level: Level
    to_level: Level
    score: StruggleScore
    reason: str


class LevelProposals:
    """Decides for one question. Ask it every few seconds while the interview's clock runs."""

    def __init__(
        self, policy: AdaptivePolicy, allowed: tuple[Level, ...], level: Level, *, began_s: float = 0.0
    ) -> None:
        self._policy = policy
        self._levels = tuple(each for each in policy.levels if each in allowed)
        self.level = level
        self.work = ObservedWork(policy, began_s)
        self._changes = 0
        self._quiet_until_s = began_s
        self._changed_s = began_s
        self._high_since_s: float | None = None
        self._low_since_s: float | None = None

    def set_level(self, level: Level, at_s: float) -> None:
        """Another level applies now, whoever chose it."""
        self.level = level
        self._changed_s = at_s
        self._begin_cooldown(at_s)

    def decline(self, at_s: float) -> None:
        """The last proposal was declined."""
        self._begin_cooldown(at_s)

    def _begin_cooldown(self, at_s: float) -> None:
        cooldown = self._policy.cooldown
        self._quiet_until_s = at_s + cooldown.first_s * cooldown.growth**self._changes
        self._changes += 1
        self._high_since_s = self._low_since_s = None

    def decide(self, now_s: float) -> LevelProposal | None:
        """A proposal, if one is due. Call `set_level` or `decline` with its answer."""
        score = self.work.score(now_s)
        higher, lower = self._policy.raise_, self._policy.lower
        is_high = score.value >= higher.score and score.failing_run_count >= higher.failing_runs
        is_low = score.value <= lower.score and self.work.progress_s > self._changed_s
        self._high_since_s = _since(self._high_since_s, now_s, is_high)
        self._low_since_s = _since(self._low_since_s, now_s, is_low)
        if now_s < self._quiet_until_s or self.level not in self._levels:
            return None
        place = self._levels.index(self.level)
        wait_s = 0.0 if self._is_pause(now_s) else higher.max_wait_s
        if _held(self._high_since_s, now_s, higher.for_s + wait_s):
            if place + 1 < len(self._levels):
                return self._propose(now_s, "up", self._levels[place + 1], score)
        elif _held(self._low_since_s, now_s, lower.for_s) and place > 0:
            return self._propose(now_s, "down", self._levels[place - 1], score)
        return None

    def _is_pause(self, now_s: float) -> bool:
        """True right after a test run, and when nothing was typed for a while."""
        after_run = self.work.last_run_s == self.work.last_active_s
        return after_run or now_s - self.work.last_active_s >= self._policy.raise_.idle_s

    def _propose(
        self, now_s: float, direction: Literal["up", "down"], to: Level, score: StruggleScore
    ) -> LevelProposal:
        minutes = round((now_s - self.work.progress_s) / 60)
        if direction == "down":
            reason = (
                "all visible tests pass" if self.work.all_pass else "new tests pass since the last change"
            )
        else:
            reason = f"{score.failing_run_count} failed test runs, and no new test passes for {minutes} min"
        return LevelProposal(now_s, direction, self.level, to, score, reason)


def _since(before_s: float | None, now_s: float, holds: bool) -> float | None:
    if not holds:
        return None
    return now_s if before_s is None else before_s


def _held(since_s: float | None, now_s: float, for_s: float) -> bool:
    return since_s is not None and now_s - since_s >= for_s
