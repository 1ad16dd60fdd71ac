"""Each user has a maximum number of open streams, of all kinds together."""

from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from websockets.exceptions import InvalidStatus

from hutch.gateway.stream.stream_quota import stream_quota_of
from tests.gateway import graphql_helpers
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.stream_clients import socket, sse

pytestmark = pytest.mark.anyio
EVENTS = "subscription ($id: ID!) { events(sessionId: $id) { __typename } }"


async def refused(api: Api, url: str) -> None:
    answered = await api.get(url)
    assert (answered.status_code, answered.headers["content-type"]) == (429, "application/problem+json")
    problem = answered.json()
    assert (problem["code"], problem["limit"]) == ("limit_reached", "server.streams_per_user")
    assert "Close some, or raise server.streams_per_user" in problem["detail"]


async def none_open(api: Api) -> None:
    async def poll() -> bool:
        return len(stream_quota_of(api.app)) == 0

    await eventually(poll)


async def test_streams_of_every_kind_count(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"streams_per_user": 3}) as api:
        session_id = await api.ready_session()
        other = await api.as_user("other", "owner")
        path = f"/sessions/{session_id}"
        url = f"{V1}{path}/events"
        terminal = (await api.post(f"{V1}/sessions/{session_id}/terminals")).json()["id"]
        async with AsyncExitStack() as stack:
            first = await stack.enter_async_context(sse(api, session_id))
            assert await first.next()
            await stack.enter_async_context(socket(api, f"{path}/events/socket"))
            subscribed = await stack.enter_async_context(graphql_helpers.socket(api))
            await graphql_helpers.subscribe(subscribed, EVENTS, "1", {"id": session_id})
            assert (await graphql_helpers.receive(subscribed))["type"] == "next"
            await refused(api, f"{url}/stream")
            code = await api.post("/api/code", json={"repoUrl": str(tmp_path), "prompt": "Mend it."})
            assert code.status_code == 429
            for where in (f"{path}/events/socket", f"{path}/terminals/{terminal}/socket"):
                with pytest.raises(InvalidStatus) as error:
                    async with socket(api, where):
                        pass
                assert error.value.response.status_code == 429
            async with sse(other, session_id) as theirs:
                assert await theirs.next()
            assert (await api.get(f"{V1}/sessions")).status_code == 200
        await none_open(api)
        async with sse(api, session_id) as again:
            assert await again.next()


async def test_a_subscription_that_is_over_releases_its_slot(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"streams_per_user": 2}) as api:
        session_id = await api.ready_session()
        async with graphql_helpers.socket(api) as subscribed:
            for number in range(5):
                await graphql_helpers.subscribe(subscribed, EVENTS, str(number), {"id": session_id})
                while (await graphql_helpers.receive(subscribed)).get("type") != "next":
                    continue
                await graphql_helpers.say(subscribed, id=str(number), type="complete")
                await none_open(api)


async def test_refused_requests_hold_no_stream_slot(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"streams_per_user": 1}) as api:
        session_id = await api.ready_session()
        stranger = await api.as_user("stranger")
        for _ in range(3):
            found = await stranger.get(f"{V1}/sessions/{session_id}/events/stream")
            assert found.status_code == 404
            wrong = await api.get(f"{V1}/sessions/{session_id}/events/stream?after=x")
            assert wrong.status_code == 400
        await none_open(api)
