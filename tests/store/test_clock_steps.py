"""Rows that are deleted by age outlive a wall clock that jumps ahead and is put right again."""

from dataclasses import replace

import pytest

from hutch.domain.request_from_forge import WebhookDelivery
from hutch.store.browser_sessions import BrowserSessions
from hutch.store.event_log import SqlLog
from hutch.store.login_attempts import LoginAttempts, Meter
from hutch.store.one_time_links import Link, OneTimeLinks
from hutch.store.users import Users
from hutch.store.webhook_inbox import WebhookInbox
from hutch.system.clock_without_jumps import SteadyClock, wall_ms

pytestmark = pytest.mark.anyio
YEARS_MS = 5 * 365 * 24 * 3600 * 1000


class Times:
    """The clocks of a machine whose wall clock is set ahead."""

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.steady = SteadyClock(wall=lambda: wall_ms() + self.ahead_ms)


async def test_wrong_guesses_are_not_forgiven(log: SqlLog) -> None:
    times, meter = Times(), Meter("somebody", free=3, max_wait_s=60)
    attempts = LoginAttempts(log, times.steady)
    for _ in range(4):
        await attempts.begin([meter])
    times.ahead_ms = YEARS_MS
    assert 0 < await attempts.begin([meter]) <= 1000


async def test_a_login_of_another_user_logs_nobody_out_for_good(log: SqlLog) -> None:
    times, users = Times(), Users(log)
    ada, bob = await users.add("ada", "owner"), await users.add("bob", "member")
    browsers = BrowserSessions(log, times.steady)
    one, secret = await browsers.begin(ada.id, began_by="password", address="", agent="")
    times.ahead_ms = YEARS_MS
    await browsers.begin(bob.id, began_by="password", address="", agent="")
    assert await browsers.recognise(secret) == (one, ada)


async def test_an_invite_is_not_lost(log: SqlLog) -> None:
    times = Times()
    links = OneTimeLinks(log, times.steady)

    async def invite() -> tuple[Link, str]:
        return await links.invite(
            role="member", session_id=None, share_role=None, life_ms=60_000, created_by="usr_1"
        )

    link, secret = await invite()
    times.ahead_ms = YEARS_MS
    await invite()
    assert await links.redeem(secret, "invite") == link


async def test_a_received_webhook_is_still_known_and_waits(log: SqlLog) -> None:
    times = Times()
    kept = WebhookInbox(log, times.steady)
    result = WebhookDelivery(id="one", digest="aa", at_ms=wall_ms(), event="issues", request="{}")
    assert await kept.add(result)
    times.ahead_ms = YEARS_MS
    assert await kept.add(replace(result, id="two", digest="bb"))
    assert not await kept.add(result)
    assert [each.id for each in await kept.list_open()] == ["one", "two"]
