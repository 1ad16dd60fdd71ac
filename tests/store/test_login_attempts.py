"""Wrong guesses as rows: some are free, then each doubles the wait."""

import asyncio

import pytest

from hutch.store.event_log import SqlLog
from hutch.store.login_attempts import RETENTION_MS, LoginAttempts, Meter

pytestmark = pytest.mark.anyio
METER = Meter("somebody", free=3, max_wait_s=60)


def test_the_wait_doubles_up_to_the_maximum() -> None:
    assert [METER.wait_ms(count) // 1000 for count in range(3, 12)] == [0, 1, 2, 4, 8, 16, 32, 60, 60]
    assert METER.wait_ms(10**9) == 60_000


async def test_attempts_are_counted_before_they_are_made(log: SqlLog) -> None:
    attempts = LoginAttempts(log)
    waits = await asyncio.gather(*(attempts.begin([METER]) for _ in range(20)))
    assert sum(wait == 0 for wait in waits) == 4
    assert all(0 < wait <= 1000 for wait in waits if wait)


async def test_one_that_must_wait_stops_all_and_none_is_counted(log: SqlLog) -> None:
    attempts, other = LoginAttempts(log), Meter("other", free=3, max_wait_s=60)
    for _ in range(4):
        await attempts.begin([METER])
    assert await attempts.begin([METER, other]) > 0
    assert [await attempts.begin([other]) for _ in range(4)] == [0, 0, 0, 0]


async def test_what_was_right_is_forgiven_or_not_counted(log: SqlLog) -> None:
    attempts, other = LoginAttempts(log), Meter("other", free=1, max_wait_s=60)
    for _ in range(2):
        await attempts.begin([METER, other])
    await attempts.record_success([METER], [other])
    assert [await attempts.begin([METER]) for _ in range(4)] == [0, 0, 0, 0]
    assert await attempts.begin([other]) == 0
    assert await attempts.begin([other]) > 0


async def test_after_a_day_it_is_forgotten_and_the_rows_are_gone(log: SqlLog) -> None:
    attempts = LoginAttempts(log)
    for number in range(50):
        await attempts.begin([Meter(f"stranger {number}", free=0, max_wait_s=60)])
    age = f"UPDATE login_attempts SET last_ms = last_ms - {RETENTION_MS + 1}"
    await log.change(lambda db: db.exec_driver_sql(age).rowcount)
    assert await attempts.begin([METER]) == 0
    count = await log.fetch(lambda db: db.exec_driver_sql("SELECT count(*) FROM login_attempts").scalar_one())
    assert count == 1


@pytest.mark.parametrize("by_s", [3600, 24 * 3600])
async def test_a_clock_that_was_set_back_locks_nobody_out_and_forgives_nothing(
    log: SqlLog, by_s: int
) -> None:
    attempts = LoginAttempts(log)
    for _ in range(4):
        await attempts.begin([METER])
    ahead = f"UPDATE login_attempts SET last_ms = last_ms + {by_s}000, until_ms = until_ms + {by_s}000"
    await log.change(lambda db: db.exec_driver_sql(ahead).rowcount)
    assert 0 < await attempts.begin([METER]) <= 1000
    await log.change(lambda db: db.exec_driver_sql("UPDATE login_attempts SET until_ms = 0").rowcount)
    assert await attempts.begin([METER]) == 0
    assert 1000 < await attempts.begin([METER]) <= 2000  # the failures of before still count


async def test_what_was_typed_is_not_kept(log: SqlLog) -> None:
    await LoginAttempts(log).begin([Meter("login\0my secret password", free=1, max_wait_s=1)])
    (key,) = await log.fetch(lambda db: db.exec_driver_sql("SELECT key FROM login_attempts").one())
    assert "secret" not in key
