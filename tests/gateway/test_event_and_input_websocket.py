"""Events and inputs over a WebSocket."""

import asyncio
import contextlib
import json
import socket as sockets
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hutch.domain.events import MessageSent, SessionEnded
from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import Accounts
from hutch.gateway.stream.open_streams import Streams, streams_of
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import Api, eventually, serving
from tests.gateway.stream_clients import ended, frames_until, next_frame, say, socket

pytestmark = pytest.mark.anyio

HELLO = {"text": "Hello there.", "times": 100}


async def ready(api: Api) -> tuple[SessionId, str, int]:
    """A session, the path of its socket, and the number of its last event."""
    session_id = SessionId(await api.ready_session(purpose="sockets"))
    return session_id, f"/sessions/{session_id}/events/socket", (await api.server.log.head(session_id)).seq


async def test_inputs_go_in_and_their_events_come_out(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[HELLO]) as api:
        session_id, path, seq = await ready(api)
        async with socket(api, path) as connection:
            await say(connection, type="input", id="a", input={"type": "prompt", "text": "Say hello."})
            frames = await frames_until(connection, "ack")
            while not any(
                each["type"] == "entry" and each["event"]["type"] == "run.ended" for each in frames
            ):
                frames.append(await next_frame(connection))
        (ack,) = [each for each in frames if each["type"] == "ack"]
        assert (ack["id"], ack["seq"]) == ("a", 1)
        entries = [each for each in frames if each["type"] == "entry"]
        kept = await api.server.log.read(session_id, limit=len(entries))
        assert [(each["seq"], each["hash"]) for each in entries] == [
            (entry.seq, entry.hash) for entry in kept
        ]
        assert len(entries) > seq
        deltas = [each for each in frames if each["type"] == "delta"]
        assert "".join(each["text"] for each in deltas) == "Hello there."


async def test_it_resumes_and_ends_with_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, path, seq = await ready(api)
        async with socket(api, f"{path}?after={seq}") as connection:
            await api.server.log.append(session_id, [MessageSent(author="user", text="one")])
            first = await next_frame(connection)
        await api.server.log.append(
            session_id, [MessageSent(author="user", text="two"), SessionEnded(outcome="done")]
        )
        async with socket(api, f"{path}?after={first['seq']}") as connection:
            frames = await frames_until(connection, "end")
            assert [each["seq"] for each in frames] == [seq + 2, seq + 3, seq + 3]
            assert await ended(connection) == (1000, "the session has ended")
        async with socket(api, f"{path}?after={seq + 3}") as connection:
            assert await next_frame(connection) == {"type": "end", "seq": seq + 3}


BAD: list[tuple[str | bytes, str]] = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[1]", "object with a type"),
    ('{"type":5}', "object with a type"),
    ("[" * 50_000, "not JSON"),
    (b"\x00\x01", "JSON texts"),
    ('{"type":"shout"}', "no frame 'shout'"),
    ('{"type":"input"}', "`input`"),
    ('{"type":"input","input":{"type":"prompt"}}', "text"),
    ('{"type":"input","input":{"type":"no"}}', "`input`"),
    ('{"type":"input","input":{"type":"prompt","text":"x","extra":1}}', "extra"),
    ('{"type":"input","id":{},"input":{"type":"cancel"}}', "`id`"),
    (json.dumps({"type": "input", "id": "x" * 201, "input": {"type": "cancel"}}), "`id`"),
    ('{"type":"input","input":{"type":"approve","call_id":"c"}}', "waits for an answer"),
]


async def test_an_invalid_frame_is_explained_and_the_next_one_processed(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, path, seq = await ready(api)
        async with socket(api, f"{path}?after={seq}") as connection:
            for frame, lesson in BAD:
                await connection.send(frame)
                answer = await next_frame(connection)
                assert answer["type"] == "error", frame
                assert answer["code"] in ("bad_request", "conflict")
                assert lesson in answer["detail"], (frame, answer)
            await say(connection, type="ping", id=7)
            assert await next_frame(connection) == {"type": "pong", "id": 7}
            await connection.send("x" * ((1 << 20) + 1))
            assert (await ended(connection))[0] == 1009
        assert (await api.server.log.head(session_id)).seq == seq


async def test_bytes_that_are_no_text_close_the_connection(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        _, path, seq = await ready(api)
        async with socket(api, f"{path}?after={seq}") as connection:
            await connection.send(b"\xff\xfe{}", text=True)
            assert (await ended(connection))[0] == 1007
        async with socket(api, f"{path}?after={seq}") as connection:
            await say(connection, type="ping")
            assert (await next_frame(connection))["type"] == "pong"


async def test_a_quiet_stream_has_heartbeats(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.app.state.streams = Streams(
            api.app.state.authenticator.access_changes, tick_s=0.05, heartbeat_s=0.2
        )
        _, path, seq = await ready(api)
        async with socket(api, f"{path}?after={seq}") as connection:
            for _ in range(2):
                assert await next_frame(connection) == {"type": "heartbeat", "seq": seq}


async def refused(api: Api, path: str, **options: Any) -> tuple[int, dict[str, Any]]:
    with pytest.raises(InvalidStatus) as caught:
        async with socket(api, path, **options):
            pass
    return caught.value.response.status_code, json.loads(caught.value.response.body or b"{}")


async def test_a_refused_handshake_gets_an_http_response(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        _, path, seq = await ready(api)
        bob, nobody = await api.as_user("bob"), await api.as_nobody()
        assert (await refused(bob, path))[0] == 404
        assert (await refused(nobody, path))[0] == 401
        assert (await refused(api, f"{path}?after=-1"))[0] == 400
        status, problem = await refused(api, f"{path}?after={seq + 1}")
        assert (status, problem["code"]) == (409, "conflict")
        evil = {"Origin": "https://evil.example"}
        assert (await refused(api, path, headers=evil))[0] == 403


async def test_watchers_give_no_input(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, path, seq = await ready(api)
        accounts, bob = Accounts(api.server.rows), await api.as_user("bob")
        users = {user.name: user.id for user in await accounts.users.list()}
        await accounts.shares.set(session_id, users["bob"], "observer", created_by=users["owner"])
        async with socket(bob, f"{path}?after={seq}") as connection:
            await say(connection, type="input", id=1, input={"type": "prompt", "text": "Delete all."})
            answer = await next_frame(connection)
            assert (answer["type"], answer["code"], answer["id"]) == ("error", "denied", 1)
            await accounts.shares.remove(session_id, users["bob"])
            assert await ended(connection) == (4403, "you no longer have access")
        assert (await api.server.log.head(session_id)).seq == seq


async def test_inputs_are_counted_as_requests(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"requests_per_minute": 120}) as api:
        _, path, seq = await ready(api)
        async with socket(api, f"{path}?after={seq}") as connection, asyncio.timeout(DEADLINE_S):
            answer = ""
            while answer != "too_many_requests":
                await say(connection, type="input", input={"type": "approve", "call_id": "c"})
                answer = (await next_frame(connection))["code"]
            await say(connection, type="ping")
            assert (await next_frame(connection))["type"] == "pong"


async def test_a_stopping_server_sends_the_position_to_resume_from(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        _, path, seq = await ready(api)
        async with socket(api, path) as connection:
            api.server.closing = True
            code, reason = await ended(connection)
            assert (code, reason.split()[0]) == (1012, f"resume={seq}")
        api.server.closing = False


async def test_a_client_that_does_not_read_is_disconnected_with_its_position(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"slow_client_s": 1}) as api:
        session_id, path, seq = await ready(api)
        texts = [MessageSent(author="user", text="x" * 100_000) for _ in range(200)]
        await api.server.log.append(session_id, texts)
        raw = sockets.socket()
        raw.setsockopt(sockets.SOL_SOCKET, sockets.SO_RCVBUF, 4096)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, (api.base_url.host, api.base_url.port))
        async with socket(api, f"{path}?after={seq}", sock=raw, max_size=None, max_queue=1) as connection:
            await next_frame(connection)

            async def let_go() -> bool:
                return len(streams_of(api.app)) == 0

            await eventually(let_go)
            got = [seq + 1]
            with contextlib.suppress(ConnectionClosed):
                async for frame in connection:
                    got.append(json.loads(frame)["seq"])
            code, reason = connection.close_code, connection.close_reason or ""
        assert got == list(range(seq + 1, got[-1] + 1))
        assert (code, reason.split()[0]) == (4408, f"resume={got[-1]}")
        assert got[-1] < seq + 200
