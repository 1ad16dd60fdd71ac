"""Traces of synthetic candidates: what one person types and runs in one question, with its times.

A module of candidates has one function, `candidates() -> list[Candidate]`. It imports only this module and
the standard library, so its author needs to know nothing about the policy that judges the work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

DURATION_S = 2700.0  # of a question

Kind = Literal["stuck", "slow_thinker", "noisy"]


@dataclass(frozen=True, slots=True)
class TestRun:
    """The candidate has run the visible tests. Nothing passed and nothing failed: the code did not start."""

    __test__ = False  # not a test of pytest
    at_s: float
    passed: frozenset[str] = frozenset()
    failed: frozenset[str] = frozenset()

    @property
    def ok(self) -> bool:
        return bool(self.passed) and not self.failed


@dataclass(frozen=True, slots=True)
class Typing:
    """Text that the candidate has added and deleted in a few seconds."""

    at_s: float
    added_chars: int
    deleted_chars: int


@dataclass(frozen=True, slots=True)
class Candidate:
    """One person's work on one question, in the order of its times. Time without events is idle time."""

    name: str  # unique, such as "stuck 17: wrong loop"
    kind: Kind
    work: Sequence[TestRun | Typing]
    stuck_from_s: float = 0.0  # of a stuck one: when they begin to fail again and again


def check(candidates: Sequence[Candidate]) -> None:
    """Refuse traces that nobody could have left."""
    names = [each.name for each in candidates]
    if len(set(names)) != len(names):
        raise ValueError("two candidates have the same name")
    for candidate in candidates:
        times = [each.at_s for each in candidate.work]
        if times != sorted(times) or any(not 0 <= at_s <= DURATION_S for at_s in times):
            raise ValueError(f"{candidate.name}: times must rise, from 0 to {DURATION_S:g}")
        if not 0 <= candidate.stuck_from_s < DURATION_S:
            raise ValueError(f"{candidate.name}: stuck_from_s is outside of the question")
        for each in candidate.work:
            if isinstance(each, Typing) and min(each.added_chars, each.deleted_chars) < 0:
                raise ValueError(f"{candidate.name}: a negative number of characters at {each.at_s:g} s")
            if isinstance(each, TestRun) and each.passed & each.failed:
                raise ValueError(f"{candidate.name}: a test passes and fails at {each.at_s:g} s")
