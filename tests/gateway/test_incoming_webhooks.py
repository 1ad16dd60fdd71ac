"""GitHub's webhooks: unsigned, too large and repeated deliveries have no effect."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from hutch.flows.forge_request_handler import TriggerOptions
from hutch.store.schema import deliveries
from hutch.store.webhook_inbox import WebhookInbox
from tests.gateway.api_server import TIMEOUT_S, V1, Api, eventually, serving
from tests.gateway.webhook_sender import SECRET, URL, commented, deliver, labeled, signature
from tests.stories.github_story import FINISH, FIX, Story, story

pytestmark = pytest.mark.anyio


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[tuple[Api, Story]]:
    with story(tmp_path) as made:
        made.keep("github_webhook_secret", SECRET)
        repo = made.hub.repository("acme/project")
        for number in range(1, 4):
            made.hub.state.new_issue(repo, "ada", f"Issue {number}", "It breaks.")
        async with made.server(replies=(FIX, FINISH)) as api:
            api.server.triggers.options = TriggerOptions(poll_s=0.02, edit_s=0.0, settle_s=0.5)
            yield api, made


async def rows(api: Api) -> list[dict[str, Any]]:
    wanted = deliveries.select().order_by(deliveries.c.at_ms)
    found = await api.server.rows.fetch(lambda connection: connection.execute(wanted).mappings().all())
    return [dict(row) for row in found]


async def settled(api: Api) -> list[dict[str, Any]]:
    async def poll() -> list[dict[str, Any]] | None:
        found = await rows(api)
        return found if all(row["state"] in ("ended", "ignored") for row in found) else None

    return list(await eventually(poll))


async def sessions(api: Api) -> list[dict[str, Any]]:
    return list((await api.get(f"{V1}/sessions")).json()["items"])


async def test_without_a_secret_webhooks_are_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        for signed in ("", "sha256=", signature(b"{}", ""), signature(b"{}")):
            answered = await deliver(api, "issues", b"{}", signed=signed)
            assert (answered.status_code, answered.json()["code"]) == (404, "not_found")


async def test_an_unsigned_delivery_is_refused(world: tuple[Api, Story]) -> None:
    api, made = world
    result = labeled(made.hub.url("acme/project"), 1)
    body = json.dumps(result).encode()
    for signed in ("", "sha256=", "sha256=" + "0" * 64, signature(body, "guess"), signature(body + b" ")):
        answered = await deliver(api, "issues", result, signed=signed)
        assert (answered.status_code, answered.json()["code"]) == (401, "unauthenticated"), signed
    with_token = {"Authorization": f"Bearer {api.token}"}  # a token does not authenticate here
    assert (await deliver(api, "issues", result, signed="", **with_token)).status_code == 401
    async with httpx.AsyncClient(base_url=api.url, timeout=TIMEOUT_S) as client:
        assert (await client.get(URL)).status_code in (404, 405)
    assert await rows(api) == [] and await sessions(api) == []
    assert made.hub.requests == []


async def test_a_huge_body_is_not_read(world: tuple[Api, Story]) -> None:
    api, _ = world
    answered = await deliver(api, "issues", b" " * (3 * 1024 * 1024))
    assert (answered.status_code, answered.json()["code"]) == (413, "limit_reached")


@pytest.mark.parametrize(
    ("body", "status"), [(b"", 400), (b"payload=%7B%7D", 400), (b"[" * 100_000, 400), (b'{"a": NaN}', 400)]
)
async def test_a_signed_body_that_is_no_event(world: tuple[Api, Story], body: bytes, status: int) -> None:
    assert (await deliver(world[0], "issues", body)).status_code == status
    assert (await deliver(world[0], "ping", b"{}")).status_code == 202
    assert (await deliver(world[0], "issues", b"{}", id="a b")).status_code == 400


async def test_the_same_delivery_is_one_run_under_whatever_name_it_comes(world: tuple[Api, Story]) -> None:
    api, made = world
    result = labeled(made.hub.url("acme/project"), 1)
    answers = await asyncio.gather(*(deliver(api, "issues", result, id="one") for _ in range(5)))
    states = sorted(answered.json()["state"] for answered in answers)
    assert states == ["known"] * 4 + ["queued"]
    replayed = await deliver(api, "issues", result, id="another")  # the name is not signed
    assert (replayed.status_code, replayed.json()["state"]) == (202, "known")
    reused = await deliver(api, "issues", labeled(made.hub.url("acme/project"), 2), id="one")
    assert reused.json()["state"] == "known"
    [row] = await settled(api)
    assert (row["state"], row["reason"], row["request"]) == ("ended", "", "")
    assert len(await sessions(api)) == len(made.pulls()) == 1
    assert (await deliver(api, "issues", result, id="later")).json()["state"] == "known"


@pytest.mark.parametrize("by", ["mallory", "bob", "tri"])
async def test_users_without_write_access_start_nothing(world: tuple[Api, Story], by: str) -> None:
    api, made = world
    made.hub.repository("acme/project").permissions |= {"bob": "read", "tri": "triage"}
    result = commented(made.hub.url("acme/project"), 1, "@hutch do it", by=by)
    result["comment"]["author_association"] = "OWNER"
    assert (await deliver(api, "issue_comment", result)).json()["state"] == "queued"
    [row] = await settled(api)
    assert row["state"] == "ignored" and by in row["reason"]
    assert await sessions(api) == []
    assert made.hub.repository("acme/project").issues[1]["comments"] == {}


@pytest.mark.parametrize(
    "output",
    [
        commented(
            "http://127.0.0.1:1/acme/project.git", 1, "> @hutch quoted\n\n`@hutch` and\n```\n@hutch\n```"
        ),
        commented("http://127.0.0.1:1/acme/project.git", 1, "Done, says @hutch <!-- hutch -->"),
        commented("https://evil.example/acme/project.git", 1, "@hutch go"),
        commented("http://127.0.0.1:1/acme/secrets.git", 1, "@hutch go"),
        {**commented("http://127.0.0.1:1/acme/project.git", 1, "@hutch go"), "action": "edited"},
        {
            **commented("http://127.0.0.1:1/acme/project.git", 1, "@hutch go"),
            "sender": {"login": "hutch[bot]", "type": "Bot"},
        },
    ],
    ids=["code and quotes", "our own", "another host", "another repository", "an edit", "a bot"],
)
async def test_events_without_a_request(world: tuple[Api, Story], output: dict[str, Any]) -> None:
    api, made = world
    answered = await deliver(api, "issue_comment", output)
    assert (answered.status_code, answered.json()["state"]) == (202, "ignored")
    assert await rows(api) == [] and made.hub.requests == []


async def test_a_repository_that_the_token_does_not_see(world: tuple[Api, Story]) -> None:
    api, made = world
    url = made.hub.url("acme/project").replace("project", "unknown")
    result = commented(url, 1, "@hutch go")
    result["repository"]["full_name"] = "acme/unknown"
    assert (await deliver(api, "issue_comment", result)).json()["state"] == "queued"
    [row] = await settled(api)
    assert row["state"] in ("ended", "ignored") and await sessions(api) == []


@pytest.mark.long
async def test_while_the_forge_is_down_a_request_waits(world: tuple[Api, Story]) -> None:
    api, made = world
    fault = made.hub.fault(r"permission", 500)
    await deliver(api, "issues", labeled(made.hub.url("acme/project"), 1), id="one")

    async def tried() -> bool:
        return (await rows(api))[0]["attempts"] > 0

    await eventually(tried)
    [row] = await rows(api)
    assert (row["state"], await sessions(api)) == ("queued", [])
    fault.times = 0
    await WebhookInbox(api.server.rows).update("one", next_ms=0)
    [row] = await settled(api)
    assert len(made.pulls()) == 1
