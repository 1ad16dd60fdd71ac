"""Events over SSE: real servers, real sockets, fast and slow clients."""

import asyncio
import gc
import socket
from pathlib import Path

import pytest

from hutch.domain.events import MessageSent, SessionEnded
from hutch.domain.ids import SessionId
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.gateway.stream.open_streams import Streams, streams_of
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.stream_clients import sse
from tests.store.direct_sql import sql

pytestmark = pytest.mark.anyio


async def opened(api: Api) -> SessionId:
    """A session, and nothing that writes into it but us."""
    return SessionId(await api.ready_session(purpose="streams"))


async def say(api: Api, session_id: SessionId, *texts: str) -> None:
    await api.server.log.append(session_id, [MessageSent(author="user", text=text) for text in texts])


async def head(api: Api, session_id: SessionId) -> int:
    return (await api.server.log.head(session_id)).seq


async def test_earlier_entries_come_first_and_then_new_ones(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        before = await head(api, session_id)
        async with sse(api, session_id) as stream:
            old = [await stream.next() for _ in range(before)]
            assert stream.retry_ms == 2000
            await say(api, session_id, "one\ntwo", "three")
            new = [await stream.next(), await stream.next()]
        read = await api.server.log.read(session_id)
        received = [(each.id, each.kind, each.data["hash"]) for each in (*old, *new) if each]
        assert received == [(entry.seq, entry.event.type, entry.hash) for entry in read]
        assert new[0] and new[0].data["event"]["text"] == "one\ntwo"


async def test_a_missing_event_ends_the_stream_and_is_named(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        await say(api, session_id, *map(str, range(9)))
        sql(api.server.loaded.paths.database, "DELETE FROM events WHERE seq BETWEEN 5 AND 7")
        async with sse(api, session_id) as stream:
            *entries, last = await stream.until("damaged")
            assert [each.id for each in entries] == [1, 2, 3, 4]
            assert last.data["seq"] == 4
            assert f"Events 5 to 7 of session {session_id} are missing" in last.data["reason"]
            assert await stream.next() is None
        path = f"{V1}/sessions/{session_id}"
        again = await api.get(f"{path}/events/stream", headers={"Last-Event-ID": "4"})
        receipt = await api.get(f"{path}/receipt")
        for refused in (again, receipt):
            assert (refused.status_code, refused.json()["code"]) == (503, "record_damaged")
            assert "Events 5 to 7" in refused.json()["detail"]


async def test_a_reconnecting_client_misses_and_repeats_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        before = await head(api, session_id)
        seen: list[int] = []
        writing = asyncio.ensure_future(_write(api, session_id, 300))
        while len(seen) < 300:
            last = seen[-1] if seen else before
            async with sse(api, session_id, last=last) as stream:
                for _ in range(min(37, 300 - len(seen))):
                    said = await stream.next()
                    assert said and said.id
                    seen.append(said.id)
        await writing
        assert seen == list(range(before + 1, before + 301))


async def _write(api: Api, session_id: SessionId, count: int) -> None:
    for number in range(count):
        await say(api, session_id, str(number))


async def test_it_ends_with_the_session_and_does_not_begin_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        async with sse(api, session_id, after=await head(api, session_id)) as stream:
            await api.server.log.append(session_id, [SessionEnded(outcome="done")])
            *_, last, end = await stream.until("end")
            assert (last.kind, end.data["seq"]) == ("session.ended", last.id)
            assert await stream.next() is None
        path = f"{V1}/sessions/{session_id}/events/stream"
        again = await api.get(path, headers={"Last-Event-ID": str(last.id)})
        assert again.status_code == 204  # a browser comes back after anything else
        assert (await api.head(path)).status_code == 200
        beyond = await api.get(path, params={"after": 10**6})
        assert (beyond.status_code, beyond.json()["code"]) == (409, "conflict")


@pytest.mark.parametrize("given", ["-1", "x", "1e3", "9" * 30, "0x10", "1,2"])
async def test_numbers_that_are_none(tmp_path: Path, given: str) -> None:
    async with serving(tmp_path) as api:
        session_id = (await api.new_session(purpose="numbers"))["id"]
        path = f"{V1}/sessions/{session_id}/events/stream"
        for answer in (
            await api.get(path, params={"after": given}),
            await api.get(path, headers={"Last-Event-ID": given}),
        ):
            assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


async def test_others_and_unauthenticated_callers_do_not_see_it(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = (await api.new_session(purpose="private"))["id"]
        path = f"{V1}/sessions/{session_id}/events/stream"
        bob, nobody = await api.as_user("bob"), await api.as_nobody()
        assert (await bob.get(path)).status_code == 404
        assert (await nobody.get(path)).status_code == 401


async def test_a_stopping_server_says_so(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        async with sse(api, session_id) as stream:
            api.server.closing = True
            *_, last = await stream.until("closing")
            assert last.data["seq"] == await head(api, session_id)
            assert await stream.next() is None
        api.server.closing = False


async def test_a_quiet_stream_beats(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        api.app.state.streams = Streams(
            api.app.state.authenticator.access_changes, tick_s=0.05, heartbeat_s=0.2
        )
        session_id = await opened(api)
        async with sse(api, session_id, after=await head(api, session_id)) as stream:
            reading = asyncio.ensure_future(stream.next())

            async def beaten() -> bool:
                return len(stream.comments) >= 3

            await eventually(beaten)
            await say(api, session_id, "after a while")
            assert (said := await reading) and said.data["event"]["text"] == "after a while"
            assert set(stream.comments) == {"still here"}


async def test_a_user_who_loses_access_sees_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await opened(api)
        accounts = Accounts(api.server.rows)
        bob, carl = await api.as_user("bob"), await api.as_user("carl")
        users = {user.name: user.id for user in await accounts.users.list()}
        for name in ("bob", "carl"):
            await accounts.shares.set(session_id, users[name], "observer", created_by=users["owner"])
        async with (
            sse(api, session_id) as mine,
            sse(bob, session_id) as bobs,
            sse(carl, session_id) as carls,
        ):
            await accounts.shares.remove(session_id, users["bob"])
            await accounts.set_disabled(users["carl"], True, LOCAL)
            for stream in (bobs, carls):
                *_, last = await stream.until("refused")
                assert last.data["reason"] == "you no longer have access"
                assert await stream.next() is None
            await say(api, session_id, "only for me")
            seen = await mine.until("message.sent")
            assert seen[-1].data["event"]["text"] == "only for me"


async def test_a_client_that_never_reads_costs_nothing_and_is_disconnected(tmp_path: Path) -> None:
    """A thousand events of 100 KB for ten clients who ask and never read."""
    async with serving(tmp_path, server={"slow_client_s": 1}) as api:
        session_id = await opened(api)
        await say(api, session_id, *("x" * 100_000 for _ in range(1000)))
        gc.collect()
        before = _resident_bytes()
        path = f"{V1}/sessions/{session_id}/events/stream"
        clients = []
        for _ in range(10):
            client = socket.create_connection((api.base_url.host, api.base_url.port))
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            head_ = f"GET {path} HTTP/1.1\r\nHost: {api.base_url.host}:{api.base_url.port}\r\n"
            client.sendall(f"{head_}Authorization: Bearer {api.token}\r\n\r\n".encode())
            clients.append(client)
        most = 0
        open_ = streams_of(api.app)

        async def begun() -> bool:
            return len(open_) == 10

        async def let_go() -> bool:
            nonlocal most
            most = max(most, _resident_bytes() - before)
            return len(open_) == 0

        await eventually(begun)
        await eventually(let_go)
        for client in clients:
            client.close()
        assert most < 40_000_000  # of the thousand million that were asked for


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
