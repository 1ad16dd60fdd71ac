"""The effect of a step of the wall clock on ages and waits."""

from hutch.system.clock_without_jumps import SteadyClock, remaining_s

HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS


class Times:
    """The wall clock and the time since the machine started, as a test moves them."""

    def __init__(self) -> None:
        self.wall_ms, self.boot_ms = 100 * DAY_MS, 5_000

    def passes(self, ms: int) -> None:
        self.wall_ms += ms
        self.boot_ms += ms


def test_a_clock_that_is_set_forward_makes_nothing_old() -> None:
    times = Times()
    clock = SteadyClock(lambda: times.wall_ms, lambda: times.boot_ms)
    written_ms = times.wall_ms
    times.passes(HOUR_MS)
    assert clock.now_ms() - written_ms == HOUR_MS
    times.wall_ms += DAY_MS
    assert clock.now_ms() - written_ms == HOUR_MS
    times.passes(HOUR_MS)
    assert clock.now_ms() - written_ms == 2 * HOUR_MS


def test_a_clock_that_is_set_back_is_followed() -> None:
    times = Times()
    clock = SteadyClock(lambda: times.wall_ms, lambda: times.boot_ms)
    times.wall_ms -= DAY_MS
    assert clock.now_ms() == times.wall_ms


def test_times_from_a_clock_that_was_behind_are_not_old_after_its_correction() -> None:
    times = Times()
    times.wall_ms -= 30 * DAY_MS  # no battery, no network yet
    clock = SteadyClock(lambda: times.wall_ms, lambda: times.boot_ms)
    written_ms = times.wall_ms
    times.passes(60_000)
    times.wall_ms += 30 * DAY_MS
    assert clock.now_ms() - written_ms == 60_000


def test_a_wait_is_never_longer_than_it_was_meant_to_be() -> None:
    assert remaining_s(1_000_000, 12.0, 1_000_000) == 12.0
    assert remaining_s(1_000_000, 12.0, 1_005_000) == 7.0
    assert remaining_s(1_000_000, 12.0, 1_000_000 + DAY_MS) == 0.0
    assert remaining_s(DAY_MS, 12.0, 0) == 12.0  # the clock was set back by a day since
