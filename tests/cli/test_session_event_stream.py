"""The client's side of a stream: every entry once, whatever happens to the line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hutch.cli.api_client import Client
from hutch.cli.run_wait_and_output import AwaitedRun, wait_for
from hutch.cli.server_address_and_token import Address
from hutch.cli.session_event_stream import follow
from hutch.domain.errors import NotFound, Unavailable
from hutch.domain.events import MessageSent, SessionEnded
from hutch.domain.ids import SessionId
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import Api, serving
from tests.sessions.session_server import repository

pytestmark = pytest.mark.anyio
SEPARATORS = "one\u2028two\x85three\x0bfour\r\nfive"  # each ends a line, for some


class Cutting:
    """A way to the server that is cut after so many bytes, again and again."""

    def __init__(self, to: int, after_bytes: int) -> None:
        self.to, self.after_bytes, self.cuts = to, after_bytes, 0
        self._passing: set[asyncio.Task[Any]] = set()

    async def pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        passing = asyncio.current_task()
        assert passing is not None
        self._passing.add(passing)
        passing.add_done_callback(self._passing.discard)
        there, back = await asyncio.open_connection("127.0.0.1", self.to)
        asking = asyncio.ensure_future(self._copy(reader, back))
        left = self.after_bytes
        try:
            while left > 0 and (data := await there.read(min(left, 4096))):
                writer.write(data)
                await writer.drain()
                left -= len(data)
            self.cuts += left <= 0
        finally:
            asking.cancel()
            back.close()
            writer.close()

    async def close(self) -> None:
        """Close every connection before the loop ends."""
        for passing in self._passing:
            passing.cancel()
        await asyncio.gather(*self._passing, return_exceptions=True)

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(4096):
            writer.write(data)
            await writer.drain()


@asynccontextmanager
async def cutting(api: Api, after_bytes: int) -> AsyncIterator[tuple[Cutting, Client]]:
    way = Cutting(int(api.url.rpartition(":")[2]), after_bytes)
    listening = await asyncio.start_server(way.pass_on, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with listening, Client(lambda: Address(f"http://127.0.0.1:{port}", api.token, "login")) as client:
        yield way, client
    await way.close()


async def append_messages(api: Api, session_id: SessionId, count: int) -> None:
    for number in range(count):
        text = f"{number} {SEPARATORS}"
        await api.server.log.append(session_id, [MessageSent(author="user", text=text)])
    await api.server.log.append(session_id, [SessionEnded(outcome="done")])


async def test_a_connection_that_breaks_often_loses_and_repeats_nothing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = SessionId(await api.ready_session(purpose="streams"))
        writing = asyncio.ensure_future(append_messages(api, session_id, 60))
        result: list[bool] = []
        async with cutting(api, 3000) as (way, client):
            entries: list[dict[str, Any]] = []
            async with aclosing(follow(client, session_id, on_connection=result.append)) as updates:
                async for update in updates:
                    if update.entry is not None:
                        entries.append(update.entry)
        await writing
        log = await api.server.log.read(session_id)
        assert [(each["seq"], each["hash"]) for each in entries] == [(each.seq, each.hash) for each in log]
        assert entries[-2]["event"]["text"] == f"59 {SEPARATORS}"
        assert way.cuts > 3
        assert result == [False, True] * (len(result) // 2)


async def test_the_stream_starts_after_an_entry_and_ends_with_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = SessionId(await api.ready_session(purpose="streams"))
        await append_messages(api, session_id, 3)
        last = (await api.server.log.head(session_id)).seq
        async with Client(lambda: Address(api.url, api.token, "login")) as client:
            seen = [update.entry async for update in follow(client, session_id, after=last - 2)]
            assert [each and each["seq"] for each in seen] == [last - 1, last]
            assert [update async for update in follow(client, session_id, after=last)] == []


async def test_a_server_that_keeps_refusing_ends_the_stream() -> None:
    body = b'{"code": "unavailable", "detail": "The database is damaged."}'
    asked = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 503 Service Unavailable\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    listening = await asyncio.start_server(refuse, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    result: list[bool] = []
    async with listening, Client(lambda: Address(url, "", "login")) as client:
        with pytest.raises(Unavailable, match="The database is damaged"):
            [
                update
                async for update in follow(
                    client, "ses_01jd2m4c9k7w6t0q8n5x3vbaeh", on_connection=result.append
                )
            ]
    assert asked > 2 and result == [False]


async def test_a_missing_session_is_reported_immediately(tmp_path: Path) -> None:
    async with serving(tmp_path) as api, Client(lambda: Address(api.url, api.token, "login")) as client:
        with pytest.raises(NotFound):
            [update async for update in follow(client, "ses_01jd2m4c9k7w6t0q8n5x3vbaeh")]


@pytest.mark.parametrize("erased", ["run.ended", "delivery.ended", "all"])
async def test_waiting_ends_although_the_end_was_erased(tmp_path: Path, erased: str) -> None:
    asked = {"prompt": "Do it.", "deliver": True, "repository": str(repository(tmp_path / "repository"))}
    async with serving(tmp_path, replies=({"text": "No."},)) as api, cutting(api, 10**9) as (_, client):
        session_id = SessionId((await api.new_session(**asked))["id"])
        async with asyncio.timeout(DEADLINE_S):
            assert await wait_for(client, session_id, AwaitedRun(delivers=True), after=0, as_json=True) == 0
            entries = await api.server.log.read(session_id)
            seqs = {entry.seq for entry in entries if entry.event.type == erased}
            assert seqs or erased == "all"
            await api.server.log.erase(session_id, seqs or None, reason="a secret")
            assert await wait_for(client, session_id, AwaitedRun(delivers=True), after=0, as_json=True) == 0
