"""Links as rows: each is spent once."""

import asyncio

import pytest

from hutch.domain.errors import Denied, NotFound
from hutch.store.event_log import SqlLog
from hutch.store.one_time_links import OneTimeLinks
from hutch.store.users import Users

pytestmark = pytest.mark.anyio
HOUR_MS = 3_600_000


async def test_of_many_concurrent_uses_of_a_link_one_succeeds(log: SqlLog) -> None:
    ada, links = await Users(log).add("ada", "owner"), OneTimeLinks(log)
    link, secret = await links.login(ada.id, life_ms=HOUR_MS, created_by="local")
    said = await asyncio.gather(*(links.redeem(secret, "login") for _ in range(8)), return_exceptions=True)
    assert sorted(type(each).__name__ for each in said) == ["Denied"] * 7 + ["Link"]
    assert link in said


async def test_a_link_of_one_kind_is_none_of_the_other(log: SqlLog) -> None:
    ada, links = await Users(log).add("ada", "owner"), OneTimeLinks(log)
    _, login = await links.login(ada.id, life_ms=HOUR_MS, created_by="local")
    _, invite = await links.invite(
        role="member", session_id=None, share_role=None, life_ms=HOUR_MS, created_by=ada.id
    )
    for secret, kind in ((login, "invite"), (invite, "login"), ("", "login")):
        with pytest.raises(Denied):
            await links.redeem(secret, kind)
        with pytest.raises(Denied):
            await links.check(secret, kind)
    await links.check(invite, "invite")  # a look spends nothing
    await links.redeem(invite, "invite")


async def test_an_invite_is_listed_until_it_is_over(log: SqlLog) -> None:
    links = OneTimeLinks(log)

    async def invite(life_ms: int) -> tuple[str, str]:
        link, secret = await links.invite(
            role="observer", session_id="ses_1", share_role="observer", life_ms=life_ms, created_by="usr_1"
        )
        return link.id, secret

    spent, kept, _ = await invite(HOUR_MS), await invite(HOUR_MS), await invite(0)
    await links.redeem(spent[1], "invite")
    assert [link.id for link in await links.invites()] == [kept[0]]
    await links.withdraw(kept[0])
    assert await links.invites() == []
    with pytest.raises(NotFound):
        await links.withdraw(kept[0])
    with pytest.raises(Denied):
        await links.redeem(kept[1], "invite")
