"""Pass rates with 95 % confidence intervals, and how two of them differ. Pure.

Attempts at one task resemble each other, so the tasks are what counts: if they agree within tasks and differ
between them, ten attempts at one task say little more than one. The intervals are Wilson's, which hold for
few tasks and at 0 and 100 %, with as many attempts as the variance between tasks allows.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

Z = 1.959964  # 95 %, two-sided


class TaskAttempts(NamedTuple):
    """The attempts at one task."""

    passed: int
    tried: int


class PassRate(NamedTuple):
    """A share from 0 to 1, and the limits between which the true one lies with 95 % confidence."""

    rate: float
    low: float
    high: float


def wilson_interval(rate: float, count: float) -> PassRate:
    """The interval of a share of `count` independent attempts."""
    if count <= 0:
        return PassRate(0.0, 0.0, 1.0)
    centre = (rate + Z * Z / (2 * count)) / (1 + Z * Z / count)
    half = Z / (1 + Z * Z / count) * math.sqrt(rate * (1 - rate) / count + Z * Z / (4 * count * count))
    return PassRate(rate, max(0.0, centre - half), min(1.0, centre + half))


def pass_rate(tasks: Sequence[TaskAttempts]) -> PassRate:
    """The rate that other tasks of the same kind can be expected to have."""
    tried = [each for each in tasks if each.tried]
    attempts = sum(each.tried for each in tried)
    if not tried:
        return PassRate(0.0, 0.0, 1.0)
    if len(tried) == 1:
        return wilson_interval(tried[0].passed / tried[0].tried, attempts)
    rate = sum(each.passed for each in tried) / attempts
    residuals = sum((each.passed - rate * each.tried) ** 2 for each in tried)
    variance = residuals * len(tried) / (len(tried) - 1) / attempts**2
    if variance == 0:  # all tasks alike: if none or all passed, the attempts may be alike too
        return wilson_interval(rate, len(tried) if rate in (0.0, 1.0) else attempts)
    independent = rate * (1 - rate) / variance
    return wilson_interval(rate, min(max(independent, len(tried)), attempts))


def rate_difference(one: PassRate, other: PassRate) -> PassRate:
    """How much higher the first rate is, by Newcombe's square-and-add method."""
    difference = one.rate - other.rate
    low = difference - math.hypot(one.rate - one.low, other.high - other.rate)
    high = difference + math.hypot(one.high - one.rate, other.rate - other.low)
    return PassRate(difference, max(-1.0, low), min(1.0, high))


def percent(rate: PassRate) -> str:
    """Such as `75 % (30 to 95)`."""
    return f"{rate.rate:.0%} ({rate.low * 100:.0f} to {rate.high * 100:.0f})".replace("%", " %", 1)
