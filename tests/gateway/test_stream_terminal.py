"""Terminals over WebSockets: real shells in real jails, several clients, hostile ones too."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus

from hutch.domain.session_jail_resource_limits import MIB
from hutch.flows.user_accounts import Accounts
from hutch.gateway.stream.open_streams import streams_of
from hutch.jail.shared_terminal import RING_BYTES
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.stream_clients import Screen, say, screen, socket

pytestmark = pytest.mark.anyio


async def opened(api: Api, **options: Any) -> tuple[str, str]:
    """A session with a terminal in it."""
    session_id = await api.ready_session(purpose="terminals", **options)
    made = await api.post(f"{V1}/sessions/{session_id}/terminals", json={"columns": 100, "rows": 30})
    assert made.status_code == 201, made.text
    return session_id, made.json()["id"]


async def share(api: Api, session_id: str, name: str, role: str) -> Api:
    accounts, other = Accounts(api.server.rows), await api.as_user(name)
    users = {user.name: user.id for user in await accounts.users.list()}
    await accounts.shares.set(session_id, users[name], role, created_by=users["owner"])  # type: ignore[arg-type]
    return other


async def test_a_shell_in_the_jail_is_at_the_other_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as mine:
            assert await mine.receive("hello") == {
                "type": "hello",
                "seq": 0,
                "missed_bytes": 0,
                "writes": True,
                "columns": 100,
                "rows": 30,
            }
            assert await mine.receive("writer") == {
                "type": "writer",
                "mode": "many",
                "name": None,
                "agent": False,
                "you": True,
            }
            await mine.type("stty size; pwd; echo $((6 * 7))\n")
            await mine.see(r"30 100\r\n/workspace\r\n42\r\n")
            await say(mine.connection, type="resize", columns=77, rows=20)
            await mine.type("stty size\n")
            await mine.see(r"20 77\r\n")
            await say(mine.connection, type="ping")
            assert await mine.receive("pong") == {"type": "pong"}
            await mine.type("exit 3\n")
            assert await mine.receive("exit") == {"type": "exit", "exit_code": 3, "limit": ""}
            assert await mine.closed() == (1000, "the program has ended")


@pytest.mark.parametrize(
    ("limit", "value", "line", "named"),
    [
        ("cpu_time_s", 1, "while :; do :; done\n", "cpu_time_s 1 s"),
        ("file_bytes", MIB, "exec dd if=/dev/zero of=big bs=1M count=4\n", "file_bytes 1 MiB"),
    ],
)
async def test_a_terminal_that_a_limit_ends_names_it(
    tmp_path: Path, limit: str, value: int, line: str, named: str
) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api, resources={limit: value})
        async with screen(api, session_id, terminal) as mine:
            await mine.type(line)
            assert await mine.receive("exit") == {"type": "exit", "exit_code": None, "limit": named}

        async def ended() -> dict[str, Any] | None:
            found = await api.events(session_id)
            return next((each for each in found if each["type"] == "terminal.ended"), None)

        event = await eventually(ended)
        assert (event["exit_code"], event["limit"]) == (None, named)


async def test_a_killed_terminal_names_no_full_directory(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api, resources={"memory_bytes": 64 * MIB})
        async with screen(api, session_id, terminal) as mine:
            await mine.type("dd if=/dev/zero of=/tmp/big bs=1M; kill -9 $$\n")
            assert await mine.receive("exit") == {"type": "exit", "exit_code": None, "limit": ""}


async def test_a_reconnecting_client_resumes_at_its_position(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as first:
            await first.type("echo one-$((1 + 1))\n")
            await first.see(r"one-2\r\n")
            await first.type("read go; echo late-$((2 + 2))\n")
            await first.see(r"echo late")
            seen = first.printed  # more may be printed until the connection is closed
        async with screen(api, session_id, terminal) as whole:
            await whole.type("\n")
            await whole.see(r"late-4\r\n")
        async with screen(api, session_id, terminal, f"?resume={len(seen)}") as rest:
            assert (await rest.receive("hello"))["seq"] == len(seen)
            await rest.see(r"late-4\r\n")
        shown = min(len(seen + rest.printed), len(whole.printed))
        assert (seen + rest.printed)[:shown] == whole.printed[:shown]


async def test_bytes_lost_from_the_ring_buffer_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as first:
            await first.type("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo all-$((1 + 1))\n")
            await first.see(r"all-2\r\n")
        async with screen(api, session_id, terminal, "?resume=10") as second:
            hello = await second.receive("hello")
            await second.see(r"all-2\r\n")
        assert hello["missed_bytes"] == hello["seq"] - 10 > 3_000_000 - RING_BYTES - 100_000
        assert len(first.printed) > 3_000_000


async def test_several_clients_write_and_watchers_do_not(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        bob, eve = (
            await share(api, session_id, "bob", "member"),
            await share(api, session_id, "eve", "observer"),
        )
        async with (
            screen(api, session_id, terminal) as mine,
            screen(bob, session_id, terminal) as bobs,
            screen(eve, session_id, terminal) as eves,
        ):
            assert (await eves.receive("hello"))["writes"] is False
            await mine.type("echo mine-$((1 + 1))\n")
            await bobs.see(r"mine-2\r\n")
            await bobs.type("echo bobs-$((2 + 2))\n")
            for each in (mine, eves):
                await each.see(r"bobs-4\r\n")
            for frame in (b"touch pwned\n", '{"type":"resize","columns":9,"rows":9}', '{"type":"take_over"}'):
                await eves.connection.send(frame)
                refusal = await eves.receive("error")
                assert refusal["code"] == "denied"
                assert "can watch" in refusal["detail"]
            await mine.type("ls pwned; stty size\n")
            await mine.see(r"No such file.*\r\n30 100\r\n")


async def test_one_writes_until_another_takes_over(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        bob = await share(api, session_id, "bob", "member")
        async with screen(api, session_id, terminal, "?mode=one") as mine:
            assert (await mine.receive("writer"))["name"] == "owner"
            async with screen(bob, session_id, terminal) as bobs:
                assert await bobs.receive("writer") == {
                    "type": "writer",
                    "agent": False,
                    "mode": "one",
                    "name": "owner",
                    "you": False,
                }
                await bobs.type("echo no\n")
                assert "Only owner types here" in (await bobs.receive("error"))["detail"]
                await say(bobs.connection, type="take_over")
                while (await mine.receive("writer"))["you"]:
                    pass
                await mine.type("echo no\n")
                assert "Only bob types here" in (await mine.receive("error"))["detail"]
                await bobs.type("echo bobs-$((2 + 2))\n")
                await mine.see(r"bobs-4\r\n")
            while not (await mine.receive("writer"))["you"]:  # who left writes no more
                pass
            await say(mine.connection, type="share")
            assert (await mine.receive("writer"))["mode"] == "many"


async def test_a_client_that_lost_write_access_only_watches(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        bob = await share(api, session_id, "bob", "member")
        async with screen(bob, session_id, terminal) as bobs:
            assert (await bobs.receive("writer"))["you"]
            await share(api, session_id, "bob", "observer")
            assert not (await bobs.receive("writer"))["you"]
            await bobs.type("echo no\n")
            assert (await bobs.receive("error"))["code"] == "denied"
            accounts = Accounts(api.server.rows)
            user = await accounts.users.find("bob")
            await accounts.shares.remove(session_id, user.id)
            assert await bobs.closed() == (4403, "you no longer have access")


WRONG: list[tuple[str | bytes, str]] = [
    ("", "not JSON"),
    ("{", "not JSON"),
    ("[" * 50_000, "not JSON"),
    ('"x"', "object with a type"),
    ('{"type":"shout"}', "no frame 'shout'"),
    ('{"type":"ack"}', "`bytes`"),
    ('{"type":"ack","bytes":-1}', "`bytes`"),
    ('{"type":"ack","bytes":1e9}', "`bytes`"),
    ('{"type":"ack","bytes":9007199254740992}', "cannot be acknowledged"),
    ('{"type":"ack","bytes":1000000}', "cannot be acknowledged"),
    ('{"type":"resize","columns":0,"rows":5}', "`columns`"),
    ('{"type":"resize","columns":80,"rows":100000}', "`rows`"),
    ('{"type":"resize","columns":"80","rows":24}', "`columns`"),
    ('{"type":"resize"}', "`columns`"),
    (b"x" * (64 * 1024 + 1), "too many for one frame"),
]


async def test_nonsense_is_answered_and_the_terminal_lives(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as mine:
            for frame, lesson in WRONG:
                await mine.connection.send(frame)
                assert lesson in (await mine.receive("error"))["detail"], frame
            await mine.type("echo alive-$((1 + 1))\n")
            await mine.see(r"alive-2\r\n")
            await mine.connection.send(b"x" * ((1 << 20) + 1))
            assert (await mine.closed())[0] == 1009
        async with screen(api, session_id, terminal) as again:
            await again.type("echo alive-$((2 + 2))\n")
            await again.see(r"alive-4\r\n")


@pytest.mark.parametrize("query", ["?resume=-1", "?resume=x", "?resume=99999999", "?mode=two"])
async def test_places_that_are_none(tmp_path: Path, query: str) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        with pytest.raises(InvalidStatus) as caught:
            async with screen(api, session_id, terminal, query):
                pass
        assert caught.value.response.status_code == 400


async def test_terminals_of_others_are_not_there(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        bob, nobody = await api.as_user("bob"), await api.as_nobody()
        evil = {"Origin": "https://evil.example"}
        for client, id, headers, status in (
            (bob, terminal, None, 404),
            (nobody, terminal, None, 401),
            (api, "77", None, 404),
            (api, "%2e%2e", None, 404),
            (api, terminal, evil, 403),
        ):
            with pytest.raises(InvalidStatus) as caught:
                async with socket(client, f"/sessions/{session_id}/terminals/{id}/socket", headers=headers):
                    pass
            assert caught.value.response.status_code == status
            assert json.loads(caught.value.response.body or b"{}")["status"] == status


async def test_typing_and_printing_at_once_does_not_stand_still(tmp_path: Path) -> None:
    """Typed input must not delay acknowledgements: the program would wait for ever."""
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as mine:
            await mine.type(
                "stty raw -echo; (head -c 4000000 /dev/zero | tr '\\0' y; echo; echo all-$((1 + 1)))"
            )
            await mine.type("; head -c 500000 >/dev/null; echo read-$((2 + 2)); exit\n")
            await mine.see("yyyy")
            for _ in range(8):
                await mine.connection.send(b"z" * 62_500)
            await mine.see(r"all-2")
            await mine.see(r"read-4")


async def test_a_watcher_that_does_not_read_holds_up_no_other_client(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"slow_client_s": 60}) as api:
        session_id, terminal = await opened(api)
        eve = await share(api, session_id, "eve", "observer")
        async with (
            screen(eve, session_id, terminal, acknowledges=False) as eves,
            screen(api, session_id, terminal) as mine,
        ):
            await mine.type("head -c 3000000 /dev/zero | tr '\\0' x; echo; echo all-$((1 + 1))\n")
            await mine.see(r"all-2\r\n")
            code, reason = await eves.closed()
            assert (code, reason.split()[0]) == (4408, f"resume={len(eves.printed)}")


async def test_a_writer_that_does_not_read_is_disconnected_in_the_end(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"slow_client_s": 1}) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal, acknowledges=False) as mine:
            await mine.type("yes\n")
            code, reason = await mine.closed()
            assert (code, reason.split()[0]) == (4408, f"resume={len(mine.printed)}")

        async def gone() -> bool:
            return len(streams_of(api.app)) == 0

        await eventually(gone)


async def test_a_terminal_that_is_closed_ends_for_all(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        async with screen(api, session_id, terminal) as one, screen(api, session_id, terminal) as two:
            for each in (one, two):
                await each.receive("hello")
            gone = await api.delete(f"{V1}/sessions/{session_id}/terminals/{terminal}")
            assert gone.status_code == 204
            for each in (one, two):
                assert (await each.receive("exit"))["type"] == "exit"
                assert (await each.closed())[0] == 1000


async def _screens(api: Api, session_id: str, terminal: str, count: int) -> list[Screen]:
    async with asyncio.timeout(DEADLINE_S):
        found = []
        for _ in range(count):
            async with screen(api, session_id, terminal) as each:
                found.append(each)
        return found


async def test_many_come_and_go(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id, terminal = await opened(api)
        await asyncio.gather(*(_screens(api, session_id, terminal, 5) for _ in range(6)))
        async with screen(api, session_id, terminal) as mine:
            await mine.type("echo alive-$((1 + 1))\n")
            await mine.see(r"alive-2\r\n")
        listed = (await api.get(f"{V1}/sessions/{session_id}/terminals")).json()

        async def nobody() -> bool:
            return len(streams_of(api.app)) == 0

        await eventually(nobody)
        assert [each["id"] for each in listed["items"]] == [terminal]
