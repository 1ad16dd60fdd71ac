"""Subscriptions by graphql-transport-ws miss nothing, and send only what the client may see."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hutch.domain.events import MessageSent
from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.graphql.session_list_watch import watch_of
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.graphql_helpers import receive, say, socket, subscribe

pytestmark = pytest.mark.anyio
EVENTS = """subscription ($id: ID!, $after: BigInt! = 0) { events(sessionId: $id, after: $after) {
    __typename ... on Event { seq type event } ... on Delta { kind text } } }"""


async def receive_events(opened: Any, count: int) -> list[dict[str, Any]]:
    found = []
    async with asyncio.timeout(DEADLINE_S):
        while len(found) < count:
            message = await receive(opened)
            assert message["type"] == "next", message
            update = message["payload"]["data"]["events"]
            if update["__typename"] == "Event":
                found.append(update)
    return found


async def test_events_come_from_a_number_on_without_a_gap(api: Api) -> None:
    session_id = SessionId(await api.ready_session(purpose="to follow"))
    head = (await api.server.log.head(session_id)).seq
    async with socket(api) as opened:
        await subscribe(opened, EVENTS, "1", {"id": session_id})
        first = await receive_events(opened, head)
        for number in range(20):
            await api.server.log.append(session_id, [MessageSent(author="user", text=str(number))])
        more = await receive_events(opened, 20)
    assert [each["seq"] for each in first + more] == list(range(1, head + 21))
    assert [each["event"]["text"] for each in more] == [str(number) for number in range(20)]
    async with socket(api) as opened:
        await subscribe(opened, EVENTS, "1", {"id": session_id, "after": head + 18})
        assert [each["seq"] for each in await receive_events(opened, 2)] == [head + 19, head + 20]


async def test_deltas_of_a_reply_come_among_the_events(api: Api) -> None:
    session_id = await api.ready_session(purpose="with deltas")
    async with socket(api) as opened:
        await subscribe(opened, EVENTS, "1", {"id": session_id})
        await receive_events(opened, 1)  # pieces come only to followers that are there already
        await api.give(session_id, type="prompt", text="Say something")
        kinds, text = set(), ""
        async with asyncio.timeout(DEADLINE_S):
            while "run.ended" not in kinds:
                update = (await receive(opened))["payload"]["data"]["events"]
                kinds.add(update["__typename"] if update["__typename"] == "Delta" else update["type"])
                text += update["text"] if update["__typename"] == "Delta" else ""
    assert "Delta" in kinds and text == "Done."


async def subscribe_to_list(api: Api, query: str, *sockets: Any) -> None:
    """Subscribe to the list of sessions, and wait until changes are put aside for all of these."""
    watchers = watch_of(api.app, api.server)._watchers
    before = set(watchers)
    for each in sockets:
        await subscribe(each, query, "1")

    async def watched() -> bool:
        return len(watchers - before) == len(sockets)

    await eventually(watched)


async def test_subscribers_to_the_list_get_the_sessions_they_may_see(api: Api) -> None:
    member, other = await api.as_user("lister"), await api.as_user("other")
    query = "subscription { sessions { id state purpose } }"
    async with socket(member) as opened, socket(other) as others:
        await subscribe_to_list(api, query, opened, others)
        session_id = await member.ready_session(purpose="listed")
        states = []
        async with asyncio.timeout(DEADLINE_S):
            while "idle" not in states:
                result = (await receive(opened))["payload"]["data"]["sessions"]
                if result["id"] == session_id:
                    states.append(result["state"])
        await say(others, type="ping")
        assert await receive(others) == {"type": "pong"}


async def test_the_list_is_followed_also_after_the_clock_was_set_back(api: Api) -> None:
    member = await api.as_user("timely")
    first = await member.ready_session(purpose="of the future")
    query = "subscription { sessions { id state } }"

    async def wait_for_session(session_id: str, opened: Any) -> None:
        async with asyncio.timeout(DEADLINE_S):
            while (await receive(opened))["payload"]["data"]["sessions"]["id"] != session_id:
                pass

    async def step(by_ms: int) -> None:
        """As if the clock had been ahead by so much when the first session was changed."""
        change = f"UPDATE sessions SET updated_ms = updated_ms + {by_ms} WHERE id = '{first}'"
        await api.server.rows.change(lambda rows: rows.exec_driver_sql(change).rowcount)

    async with socket(member) as opened:
        await subscribe_to_list(api, query, opened)
        await step(3_600_000)
        try:
            await wait_for_session(first, opened)
            await wait_for_session(await member.ready_session(purpose="of now"), opened)
        finally:
            await step(-3_600_000)


async def test_subscribers_to_the_list_see_removed_sessions(api: Api) -> None:
    ada, bob, eve = [await api.as_user(name) for name in ("remover", "guest", "stranger")]
    session_id = await ada.ready_session(purpose="to be removed")
    url = f"{V1}/sessions/{session_id}"
    assert (await ada.put(f"{url}/shares/guest", json={"role": "observer"})).status_code == 200
    query = "subscription { sessions { id state removed purpose } }"
    async with socket(ada) as one, socket(bob) as two, socket(api) as three, socket(eve) as four:
        await subscribe_to_list(api, query, one, two, three, four)
        assert (await ada.delete(url)).status_code == 204
        for each in (one, two, three):
            result: dict[str, Any] = {}
            async with asyncio.timeout(DEADLINE_S):
                while not result.get("removed"):
                    result = (await receive(each))["payload"]["data"]["sessions"]
            assert result == {"id": session_id, "state": "ended", "removed": True, "purpose": "to be removed"}
        await asyncio.sleep(1)
        for each in (one, four):  # nothing comes after it, and nothing to who could not see it
            await say(each, type="ping")
            assert await receive(each) == {"type": "pong"}


async def test_queries_are_answered_too_and_then_complete(api: Api) -> None:
    async with socket(api) as opened:
        await subscribe(opened, "{ me { name } }", "q")
        answer = {"id": "q", "type": "next", "payload": {"data": {"me": {"name": "owner"}}}}
        assert [await receive(opened), await receive(opened)] == [answer, {"id": "q", "type": "complete"}]


async def test_a_refusal_has_its_code_and_the_connection_continues(api: Api) -> None:
    stranger = await api.as_user("wsstranger")
    session_id = await api.ready_session(purpose="private")
    async with socket(stranger) as opened:
        for query, variables, code in (
            (EVENTS, {"id": session_id}, "not_found"),
            (EVENTS, {"id": "ses_none"}, "not_found"),
            ("subscription { nothing }", {}, "bad_request"),
            ("{", {}, "bad_request"),
            ("{ " + "me { id } " * 100 + "}", {}, "limit_reached"),
        ):
            await subscribe(opened, query, "x", variables)
            result = await receive(opened)
            assert (result["id"], result["type"]) == ("x", "error"), result
            assert result["payload"][0]["extensions"]["code"] == code
        await subscribe(opened, "{ me { name } }", "y")
        assert (await receive(opened))["payload"]["data"] == {"me": {"name": "wsstranger"}}


async def test_a_client_can_end_its_subscription(api: Api) -> None:
    session_id = SessionId(await api.ready_session(purpose="to leave"))
    async with socket(api) as opened:
        await subscribe(opened, EVENTS, "a", {"id": session_id})
        await receive(opened)
        await say(opened, id="a", type="complete")
        await say(opened, type="ping")
        async with asyncio.timeout(DEADLINE_S):
            while (await receive(opened))["type"] != "pong":
                pass
        await api.server.log.append(session_id, [MessageSent(author="user", text="missed")])
        await say(opened, type="ping")
        assert await receive(opened) == {"type": "pong"}


async def test_a_name_can_be_used_again_at_once(api: Api) -> None:
    session_id = SessionId(await api.ready_session(purpose="again"))
    head = (await api.server.log.head(session_id)).seq
    async with socket(api) as opened:
        for _ in range(30):  # more than may go on at one time
            await subscribe(opened, EVENTS, "a", {"id": session_id, "after": head})
            await say(opened, id="a", type="complete")
        await subscribe(opened, EVENTS, "a", {"id": session_id, "after": head})
        await api.server.log.append(session_id, [MessageSent(author="user", text="received")])
        (event,) = await receive_events(opened, 1)
        assert event["event"]["text"] == "received"


async def test_no_more_than_so_many_at_once(api: Api) -> None:
    session_id = await api.ready_session(purpose="crowded")
    head = (await api.server.log.head(SessionId(session_id))).seq
    async with socket(api) as opened:
        for number in range(21):
            await subscribe(opened, EVENTS, str(number), {"id": session_id, "after": head})
        result = await receive(opened)
        assert (result["id"], result["payload"][0]["extensions"]["limit"]) == ("20", "graphql.operations")


async def test_a_client_that_lost_access_gets_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = SessionId(await api.ready_session(purpose="to be taken back"))
        watcher = await api.as_user("watcher", "observer")
        await api.put(f"{V1}/sessions/{session_id}/shares/watcher", json={"role": "observer"})
        async with socket(watcher) as opened:
            head = (await api.server.log.head(session_id)).seq
            await subscribe(opened, EVENTS, "1", {"id": session_id, "after": head})
            await api.server.log.append(session_id, [MessageSent(author="user", text="seen")])
            assert (await receive(opened))["payload"]["data"]["events"]["event"]["text"] == "seen"
            await api.delete(f"{V1}/sessions/{session_id}/shares/watcher")
            await api.server.log.append(session_id, [MessageSent(author="user", text="unseen")])
            result = await receive(opened)
            assert "unseen" not in json.dumps(result)
            assert "not_found" in json.dumps(result)


@pytest.mark.parametrize(
    ("frames", "code"),
    [
        (["{"], 4400),
        (["[]"], 4400),
        (['{"type": 7}'], 4400),
        (['{"type": "nonsense"}'], 4400),
        ([b"\x00\x01"], 4400),
        (['{"type": "subscribe", "id": "1", "payload": {"query": "{ me { id } }"}}'], 4401),
        (['{"type": "connection_init"}', '{"type": "connection_init"}'], 4429),
        (['{"type": "connection_init"}', '{"type": "subscribe", "id": 5}'], 4400),
        (['{"type": "connection_init"}', '{"type": "complete"}'], 4400),
        (['{"type": "connection_init"}', '{"type": "subscribe", "id": "' + "x" * 300 + '"}'], 4400),
    ],
)
async def test_broken_frames_close_the_connection_with_the_codes_of_the_protocol(
    api: Api, frames: list[Any], code: int
) -> None:
    async with socket(api, greeted=False) as opened:
        for frame in frames:
            await opened.send(frame)
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    await opened.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == code


async def test_an_operation_with_a_name_in_use_closes_it(api: Api) -> None:
    session_id = await api.ready_session(purpose="twice")
    async with socket(api) as opened:
        for _ in range(2):
            await subscribe(opened, EVENTS, "1", {"id": session_id})
        with pytest.raises(ConnectionClosed) as closed:
            async with asyncio.timeout(DEADLINE_S):
                while True:
                    await opened.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 4409


async def test_unauthenticated_callers_other_pages_and_other_protocols_are_refused(api: Api) -> None:
    nobody = await api.as_nobody()
    for options, status in (
        ({"additional_headers": {}}, 401),
        ({"origin": "https://evil.example"}, 403),
        ({"subprotocols": ["graphql-ws"]}, 400),
        ({"subprotocols": None}, 400),
    ):
        with pytest.raises(InvalidStatus) as refused:
            async with socket(nobody if "additional_headers" in options else api, greeted=False, **options):
                pass
        assert refused.value.response.status_code == status


async def test_a_disabled_user_gets_no_further_responses(api: Api) -> None:
    accounts = Accounts(api.server.rows)
    client = await api.as_user("leaving")
    async with socket(client) as opened:
        user = await accounts.users.find("leaving")
        await accounts.set_disabled(user.id, True, LOCAL)
        api.app.state.authenticator.forget(user_id=user.id)
        await subscribe(opened, "{ me { name } }", "1")
        result = await receive(opened)
        assert (result["type"], result["payload"][0]["extensions"]["code"]) == ("error", "unauthenticated")


async def test_clients_are_notified_when_the_server_ends(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, socket(api) as opened:
        api.server.closing = True
        with pytest.raises(ConnectionClosed) as closed:
            await opened.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012


async def test_a_subscription_is_counted_once_and_its_address_not_at_all(tmp_path: Path) -> None:
    """With two requests a minute: the connection is one, and the subscription the other."""
    async with serving(tmp_path, server={"requests_per_minute": 2}) as api:
        session_id = (await api.new_session(purpose="to follow"))["id"]
        another, nobody = await api.as_user("owner"), await api.as_nobody()
        assert (await nobody.get(f"{V1}/sessions")).status_code == 401
        async with socket(another) as opened:
            await subscribe(opened, EVENTS, "1", {"id": session_id})
            assert [each["seq"] for each in await receive_events(opened, 1)] == [1]
            assert [(await nobody.get(f"{V1}/sessions")).status_code for _ in range(2)] == [401, 429]
