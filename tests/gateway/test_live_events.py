"""The newest events over all sessions: filters, who sees what, and the stream until access is lost."""

import asyncio
import json
import os
from pathlib import Path

import pytest
from sqlalchemy import update

from hutch.domain.events import MessageSent
from hutch.store import newest_events_over_sessions
from hutch.store.schema import sessions
from tests.forked_command import HUTCH, run
from tests.gateway.api_server import V1, serving

pytestmark = pytest.mark.anyio
REPLIES = [{"text": "Done.", "times": 100}]


async def test_newest_events_with_filters_for_what_the_caller_may_see(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        bob, eve = await api.as_user("bob"), await api.as_user("eve")
        mine, bobs = await api.ready_session(prompt="One."), await bob.ready_session(prompt="Two.")
        note = MessageSent(author="user", text="a private remark", audience="owner")
        await api.server.log.append(bobs, [note])
        found = (await api.get(f"{V1}/logs")).json()
        assert {item["session"] for item in found["items"]} == {mine, bobs}
        positions = [item["position"] for item in found["items"]]
        assert positions == sorted(positions, reverse=True)
        first = found["items"][-1]
        assert {"type", "data", "repoUrl", "prompt", "timestamp"} <= set(first)

        async def read(api, **which):  # type: ignore[no-untyped-def]
            items = (await api.get(f"{V1}/logs", params=which)).raise_for_status().json()["items"]
            return [(item["type"], item["session"]) for item in items]

        assert await read(api, type="run.ended", user="bob") == [("run.ended", bobs)]
        started = (await api.get(f"{V1}/logs", params={"type": "run.started"})).json()["items"]
        assert {item["prompt"] for item in started} == {"One.", "Two."}
        assert {session for _, session in await read(bob)} == {bobs}
        assert await read(bob, q="REMARK") == [("message.sent", bobs)]
        assert await read(bob, user="bob", type="message.sent", q="remark") == [("message.sent", bobs)]
        assert await read(bob, user="owner") == await read(eve) == await read(api, repository="/none") == []
        shared = await bob.put(f"{V1}/sessions/{bobs}/shares/eve", json={"role": "observer"})
        assert shared.is_success
        assert {session for _, session in await read(eve)} == {bobs}
        assert await read(eve, q="remark") == []  # for the owner's side only
        assert (await (await api.as_nobody()).get(f"{V1}/logs")).status_code == 401
        assert (await api.get(f"{V1}/logs", params={"type": "no such kind"})).status_code == 400

        rows = api.server.rows
        moved = (
            update(sessions).where(sessions.c.id == mine).values(repository="https://github.com/acme/Shop")
        )
        await rows.change(lambda connection: connection.execute(moved))
        for spelling in ("git@github.com:acme/shop.git", "https://github.com/acme/shop/"):
            assert {session for _, session in await read(api, repository=spelling)} == {mine}

        page = (await api.get(f"{V1}/logs", params={"limit": 3})).json()
        following = (await api.get(f"{V1}/logs", params={"limit": 3, "cursor": page["next"]})).json()
        pages = [item["position"] for item in (*page["items"], *following["items"])]
        assert pages == positions[:6]


async def test_the_terminal_searches_older_pages_until_it_has_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(newest_events_over_sessions, "MAX_EXAMINED_EVENTS", 5)
    async with serving(tmp_path, replies=REPLIES) as api:
        for _ in range(3):
            await api.ready_session(prompt="One.")
        page = (await api.get(f"{V1}/logs", params={"type": "session.opened"})).json()
        assert len(page["items"]) < 2 and page["next"] is not None
        environment = {"HUTCH_SERVER": api.url, "HUTCH_TOKEN": api.token, "HUTCH_HOME": str(tmp_path / "cli")}

        async def tail(*words: str) -> list[str]:
            command = [HUTCH, "tail", "--kind", "session.opened", *words]
            done = await asyncio.to_thread(
                run, command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True
            )
            assert done.returncode == 0, done.stderr
            return list(done.stdout.splitlines())

        assert len(await tail()) == 3
        assert await tail("-n", "2") == (await tail())[1:]


async def test_the_stream_sends_new_events_and_ends_when_access_is_lost(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=REPLIES) as api:
        bob = await api.as_user("bob")
        session = await bob.ready_session(prompt="One.")
        mine = await api.ready_session(prompt="Mine.")
        async with bob.stream("GET", f"{V1}/logs/stream", params={"type": "message.sent"}) as answer:
            assert answer.headers["content-type"].startswith("text/event-stream")
            lines = answer.aiter_lines()
            await anext(lines)
            for id_, text in ((mine, "not for bob"), (session, "first"), (session, "second")):
                await api.server.log.append(id_, [MessageSent(author="user", text=text)])
            texts = []
            async for line in lines:
                if line.startswith("data:"):
                    texts.append(json.loads(line[5:])["data"]["text"])
                if len(texts) == 2:
                    break
            assert texts == ["first", "second"]
            tokens = (await bob.get(f"{V1}/tokens")).json()["items"]
            assert (await bob.delete(f"{V1}/tokens/{tokens[0]['id']}")).is_success
            assert "event: refused" in [line async for line in lines]
