"""`GET /usage`: owners see the usage of all sessions, others only their own."""

from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, eventually, serving

pytestmark = pytest.mark.anyio

REPLIES = [
    {
        "text": "Done.",
        "usage": {"input": 100, "cached": 40, "output": 7},
        "times": 100,
    }
]


async def counted(api: Api, runs: int, **which: Any) -> dict[str, Any]:
    """The totals, once as many runs are in them and nothing is missing."""

    async def poll() -> dict[str, Any] | None:
        found = dict((await api.get(f"{V1}/usage", params=which)).raise_for_status().json())
        is_whole = not found["behind"] and sum(each["runs"] for each in found["items"]) == runs
        return found if is_whole else None

    return dict(await eventually(poll))


async def test_users_see_their_own_usage_and_owners_all(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        bob, eve = await api.as_user("bob"), await api.as_user("eve")
        mine = await api.ready_session(prompt="One.")
        bobs = [await bob.ready_session(prompt="One."), await bob.ready_session(prompt="Two.")]
        whole = await counted(api, 3, group="session")
        assert {each["key"] for each in whole["items"]} == {mine, *bobs}
        assert all(each["turns"] == 1 for each in whole["items"])
        assert len((await counted(api, 3, group="user"))["items"]) == 2
        (day,) = (await counted(api, 3, group="day"))["items"]
        assert day["turns"] == 3

        # Another member's usage is not shown: not by sessions, users, days, or what was shared to read.
        assert {each["key"] for each in (await counted(bob, 2, group="session"))["items"]} == set(bobs)
        for group in ("user", "model", "persona", "day"):
            assert [each["runs"] for each in (await counted(bob, 2, group=group))["items"]] == [2], group
            assert (await counted(eve, 0, group=group))["items"] == []
        shared = await bob.put(f"{V1}/sessions/{bobs[0]}/shares/eve", json={"role": "observer"})
        assert shared.is_success, shared.text
        assert (await counted(eve, 0))["items"] == []
        observer = await api.as_user("olga", "observer")
        assert (await counted(observer, 0))["items"] == []
        narrowed = await api.as_user("owner", scopes="read")  # an owner's token that may not administer
        assert {each["key"] for each in (await counted(narrowed, 1, group="session"))["items"]} == {mine}
        assert (await (await api.as_nobody()).get(f"{V1}/usage")).status_code == 401


async def test_pages_and_days(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        ids = sorted([await api.ready_session(prompt="Go.") for _ in range(3)])
        await counted(api, 3, group="session")
        seen, cursor = [], ""
        while cursor is not None:
            asked = {"group": "session", "limit": 2, "cursor": cursor}
            found = (await api.get(f"{V1}/usage", params=asked)).json()
            assert len(found["items"]) <= 2
            seen += [each["key"] for each in found["items"]]
            cursor = found["next"]
        assert seen == ids
        (today,) = [each["key"] for each in (await counted(api, 3))["items"]]
        assert (await counted(api, 3, **{"from": today, "to": today}))["items"]
        assert (await counted(api, 0, to="2001-01-01"))["items"] == []
        for wrong in (
            {"from": "2030-01-02", "to": "2030-01-01"},
            {"from": "x"},
            {"group": "x"},
            {"limit": 201},
        ):
            assert (await api.get(f"{V1}/usage", params=wrong)).status_code in (400, 422), wrong


@pytest.mark.parametrize("day", ["0", "1e-9", "1700000000", "2026-1-1", "2026-01-01T00:00"])
async def test_a_number_is_not_a_day(tmp_path: Path, day: str) -> None:
    async with serving(tmp_path) as api:
        refused = await api.get(f"{V1}/usage", params={"to": day})
        assert (refused.status_code, refused.json()["code"]) == (422, "invalid")
