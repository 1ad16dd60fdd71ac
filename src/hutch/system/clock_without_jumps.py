"""Time that a step of the system clock does not distort.

The wall clock can be set forward or back at any moment: by NTP, by an operator, or
when a virtual machine resumes. Decisions that delete or wait use these functions.
"""

import time
from collections.abc import Callable
from dataclasses import field

from hutch.system.lazy_dataclass import dataclass


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


def boot_ms() -> int:
    """Milliseconds since the machine started, with the time that it was suspended."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000_000


@dataclass(slots=True)
class SteadyClock:
    """The wall clock, but never further ahead than the time that has passed since this object was made.

    Age by this clock is never too great: setting the wall clock forward makes nothing old.
    """

    wall: Callable[[], int] = wall_ms
    passed: Callable[[], int] = boot_ms
    _offset_ms: int = field(init=False)

    def __post_init__(self) -> None:
        self._offset_ms = self.wall() - self.passed()

    def now_ms(self) -> int:
        return min(self.wall(), self.passed() + self._offset_ms)


STEADY = SteadyClock()


def remaining_s(since_ms: int, wait_s: float, now_ms: int) -> float:
    """The rest of a wait that started at `since_ms`; at most `wait_s`, even if the clock was set back."""
    return min(wait_s, max(0.0, since_ms / 1000 + wait_s - now_ms / 1000))
