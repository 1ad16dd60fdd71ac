"""Access that is taken away ends at once, also on connections that are open."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

from hutch.domain.events import MessageSent
from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import LOCAL, Accounts
from tests.gateway import graphql_helpers
from tests.gateway.api_server import TIMEOUT_S, V1, Api, serving
from tests.gateway.stream_clients import ended, frames_until, screen, socket, sse
from tests.gateway.test_document_websocket import content, editing, put
from tests.gateway.test_graphql_websocket import EVENTS

pytestmark = pytest.mark.anyio

Loss = Callable[[Api, str, str], Awaitable[None]]
"""Takes access to a session away from a user."""


async def _user_id(api: Api, name: str) -> str:
    return (await Accounts(api.server.rows).users.find(name)).id


async def remove_share(api: Api, session_id: str, name: str) -> None:
    assert (await api.delete(f"{V1}/sessions/{session_id}/shares/{name}")).status_code == 204


async def lower_share(api: Api, session_id: str, name: str) -> None:
    changed = await api.put(f"{V1}/sessions/{session_id}/shares/{name}", json={"role": "observer"})
    assert changed.status_code == 200, changed.text


async def narrow_share(api: Api, session_id: str, name: str) -> None:
    only = {"role": "member", "scopes": ["prompt"]}
    assert (await api.put(f"{V1}/sessions/{session_id}/shares/{name}", json=only)).status_code == 200


async def lower_role(api: Api, session_id: str, name: str) -> None:
    changed = await api.patch(f"{V1}/users/{await _user_id(api, name)}", json={"role": "observer"})
    assert changed.status_code == 200, changed.text


async def disable_user(api: Api, session_id: str, name: str) -> None:
    changed = await api.patch(f"{V1}/users/{await _user_id(api, name)}", json={"disabled": True})
    assert changed.status_code == 200, changed.text


async def revoke_token(api: Api, session_id: str, name: str) -> None:
    [token] = await Accounts(api.server.rows).tokens.list(await _user_id(api, name))
    assert (await api.delete(f"{V1}/tokens/{token.id}")).status_code == 204


async def forbid_by_policy(api: Api, session_id: str, name: str) -> None:
    rules = {"name": "no-typing", "roles": ["member"], "rules": ["deny write_file", "deny terminal"]}
    added = await api.post(f"{V1}/policies", json=rules)
    assert added.status_code in (200, 201), added.text


LOSSES = [remove_share, lower_share, narrow_share, lower_role, disable_user, revoke_token, forbid_by_policy]


async def answered(connection: ClientConnection) -> None:
    """Wait until the server has processed what was sent before, or has closed the connection."""
    with suppress(ConnectionClosed):
        await connection.send('{"type": "ping"}')
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                frame = await connection.recv()
                if isinstance(frame, str) and json.loads(frame)["type"] == "pong":
                    return


@pytest.mark.parametrize("lose", LOSSES)
async def test_nothing_is_typed_after_access_was_lost(tmp_path: Path, lose: Loss) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\n")
        made = await api.post(f"{V1}/sessions/{session_id}/terminals", json={})
        path = f"/sessions/{session_id}/terminals/{made.json()['id']}/socket"
        bob = await api.as_user("bob")
        await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "member"})
        async with editing(bob, session_id) as editor, socket(bob, path) as terminal:
            await editor.sees("one")
            await terminal.send(b"touch before\n")
            await answered(terminal)
            await lose(api, session_id, "bob")
            with suppress(ConnectionClosed):  # one of both may be closed already
                await terminal.send(b"touch after\n")
            with suppress(ConnectionClosed):
                await editor.type(0, "LATE ")
                await editor.send("save")
            await answered(terminal)
            await answered(editor.connection)
        async with screen(api, session_id, made.json()["id"]) as mine:
            await mine.type("ls; echo end-$((6 * 7))\n")
            await mine.see("before.*end-42")
            assert b"after" not in mine.printed
        async with editing(api, session_id) as other:
            await other.sees("one")
            assert other.text == "one\n"
        assert await content(api, session_id) == b"one\n"


async def test_no_event_is_sent_after_access_was_lost(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        bob = await api.as_user("bob")
        await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "observer"})
        head = (await api.server.log.head(SessionId(session_id))).seq
        async with (
            sse(bob, session_id, after=head) as stream,
            socket(bob, f"/sessions/{session_id}/events/socket?after={head}") as events,
            graphql_helpers.socket(bob) as graphql,
        ):
            await graphql_helpers.subscribe(graphql, EVENTS, "1", {"id": session_id, "after": head})
            await append(api, session_id, "seen")
            assert (await stream.until("message.sent"))[-1].data["event"]["text"] == "seen"
            assert (await frames_until(events, "entry"))[-1]["event"]["text"] == "seen"
            assert "seen" in json.dumps(await graphql_helpers.receive(graphql))
            await remove_share(api, session_id, "bob")
            await append(api, session_id, "unseen")
            assert [each.kind for each in await stream.until("refused")] == ["refused"]
            assert await ended(events) == (4403, "you no longer have access")
            result = json.dumps(await graphql_helpers.receive(graphql))
            assert "unseen" not in result and "not_found" in result


async def append(api: Api, session_id: str, text: str) -> None:
    await api.server.log.append(SessionId(session_id), [MessageSent(author="user", text=text)])


async def test_access_that_another_process_takes_away_ends_open_connections(tmp_path: Path) -> None:
    """`hutch users disable` on the server's machine writes to the database."""
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        bob = await api.as_user("bob")
        await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "member"})
        async with socket(bob, f"/sessions/{session_id}/documents/socket") as documents:
            await Accounts(api.server.rows).set_disabled(await _user_id(api, "bob"), True, LOCAL)
            assert await ended(documents) == (4403, "you no longer have access")
