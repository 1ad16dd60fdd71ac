"""A webhook is processed once, by its id and its content, also across restarts."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.domain.request_from_forge import WebhookDelivery
from hutch.store.event_log import open_log
from hutch.store.webhook_inbox import MAX_WAIT_MS, RETENTION_MS, WebhookInbox
from hutch.system.clock_without_jumps import wall_ms

pytestmark = pytest.mark.anyio


async def test_once_by_name_and_by_what_it_says(tmp_path: Path) -> None:
    result = WebhookDelivery(id="one", digest="aa", at_ms=wall_ms(), event="issues", request="{}")
    paths = (tmp_path / "db", tmp_path / "blobs", tmp_path / "key")
    async with open_log(*paths) as log:
        assert await WebhookInbox(log).add(result)
        assert not await WebhookInbox(log).add(replace(result, digest="bb"))
    async with open_log(*paths) as log:
        kept = WebhookInbox(log)
        assert not await kept.add(result)
        assert not await kept.add(replace(result, id="two"))
        assert await kept.add(replace(result, id="two", digest="bb"))
        assert [each.id for each in await kept.list_open()] == ["one", "two"]
        await kept.update("one", next_ms=wall_ms() + 60_000)
        assert [each.id for each in await kept.list_open()] == ["two"]
        await kept.update("two", state="working")
        await kept.update("one", state="ended")
        assert [each.id for each in await kept.list_open()] == ["two"]
        over = await kept.get("one")
        assert over is not None and over.request == ""
        old = replace(result, id="old", digest="cc", at_ms=wall_ms() - RETENTION_MS - 1000)
        assert await kept.add(old)
        assert await kept.add(replace(result, id="three", digest="dd"))
        assert await kept.get("old") is None


async def test_a_clock_that_was_set_back_does_not_put_off_the_next_try_for_hours(tmp_path: Path) -> None:
    result = WebhookDelivery(id="one", digest="aa", at_ms=wall_ms(), event="issues", request="{}")
    async with open_log(tmp_path / "db", tmp_path / "blobs", tmp_path / "key") as log:
        kept = WebhookInbox(log)
        assert await kept.add(result)
        await kept.update("one", next_ms=wall_ms() + MAX_WAIT_MS)
        assert await kept.list_open() == []
        for by_ms in (3_600_000, 24 * 3_600_000):
            await kept.update("one", next_ms=wall_ms() + by_ms)
            assert [each.id for each in await kept.list_open()] == ["one"]
