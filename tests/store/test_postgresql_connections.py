"""The event log in PostgreSQL: several processes, and connections that break."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import insert, text

from hutch.domain.errors import BadRequest, Unavailable
from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.event_log import SqlLog, open_log
from hutch.store.postgresql_connection import connect
from hutch.store.postgresql_transaction import PostgresqlTransaction
from hutch.store.schema import preferences
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, Forked
from tests.postgresql_server import server

pytestmark = [pytest.mark.anyio, pytest.mark.postgresql]

APPEND_FROM_ANOTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from hutch.domain.events import MessageSent
from hutch.store.database_location import PostgresqlDatabase
from hutch.store.event_log import open_log

async def main(home, url, session_id, name):
    location = PostgresqlDatabase(url, home)
    async with open_log(location, home / "blobs", home / "keys" / "signing.pem") as log:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(50):
            await log.append(session_id, [MessageSent(author="agent", text=f"{name} {number}")])

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""
OTHERS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"


@pytest.fixture
def location(tmp_path: Path) -> PostgresqlDatabase:
    return server().empty_database(tmp_path)


@pytest.fixture
async def log(location: PostgresqlDatabase, tmp_path: Path) -> AsyncIterator[SqlLog]:
    async with open_log(location, tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as opened:
        yield opened


def message(words: str) -> MessageSent:
    return MessageSent(author="agent", text=words)


async def break_connections(location: PostgresqlDatabase) -> None:
    """As if the server was restarted: returns when all connections of this moment are gone."""

    def run() -> None:
        with connect(location) as session:
            gone = session.execute(f"SELECT pg_terminate_backend(pid, {DEADLINE_S * 1000:.0f}) {OTHERS}")
            assert all(row[0] for row in gone)

    await asyncio.to_thread(run)


async def test_processes_that_race_cannot_fork_a_log_and_a_follower_sees_all(
    log: SqlLog, location: PostgresqlDatabase, tmp_path: Path
) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
    script = [sys.executable, "-c", APPEND_FROM_ANOTHER_PROCESS, str(tmp_path), location.url, session_id]
    racers = [Forked([*script, name], env=PLAIN, text=True, **pipes) for name in ("a", "b")]
    for racer in racers:
        assert racer.stdout is not None and racer.stdin is not None
        assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
        racer.stdout.close()
    async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id)) as entries:
        assert (await anext(entries)).seq == 1
        for racer in racers:
            racer.stdin.write("go\n")  # type: ignore[union-attr]
            racer.stdin.close()  # type: ignore[union-attr]
        for number in range(50):
            await log.append(session_id, [message(f"own {number}")])
        seen = [await anext(entries) for _ in range(150)]
    assert [await asyncio.to_thread(racer.wait, DEADLINE_S) for racer in racers] == [0, 0]
    assert [entry.seq for entry in seen] == list(range(2, 152))
    expected = [f"{name} {number}" for name in ("a", "b", "own") for number in range(50)]
    assert sorted(entry.event.text for entry in seen) == sorted(expected)  # type: ignore[union-attr]


async def test_work_goes_on_after_all_connections_broke(log: SqlLog, location: PostgresqlDatabase) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id)) as entries:
        assert (await anext(entries)).seq == 1
        await break_connections(location)
        await log.append(session_id, [message("after")])
        assert (await anext(entries)).event == message("after")


async def test_a_follower_of_another_process_continues_after_its_connection_broke(
    log: SqlLog, location: PostgresqlDatabase, tmp_path: Path
) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    async with (
        open_log(location, tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as other,
        asyncio.timeout(DEADLINE_S),
        aclosing(other.follow(session_id)) as entries,
    ):
        assert (await anext(entries)).seq == 1
        await break_connections(location)
        await log.append(session_id, [message("after")])
        assert (await anext(entries)).event == message("after")


@pytest.mark.parametrize("committed", [True, False])
async def test_a_commit_whose_confirmation_was_lost_is_looked_up(
    location: PostgresqlDatabase, log: SqlLog, committed: bool
) -> None:
    """The connection breaks at the commit: only another connection can tell if it was made."""
    transaction = PostgresqlTransaction(log._database.engine, lambda _: None)
    try:
        transaction.begin()
        transaction.add_key("key", b"")
        session = transaction._session
        assert transaction.rows  # sends what is waiting
        if committed:
            session.execute("COMMIT")
        with connect(location) as killer:
            killer.execute("SELECT pg_terminate_backend(%s, 60000)", (session.info.backend_pid,))
        if committed:
            transaction.commit()
        else:
            with pytest.raises(psycopg.OperationalError):
                transaction.commit()
    finally:
        transaction.close()
    keys = text("SELECT fingerprint FROM public_keys WHERE fingerprint = 'key'")
    found = await log.fetch(lambda connection: connection.scalars(keys).all())
    assert found == (["key"] if committed else [])


async def test_a_text_that_postgresql_cannot_store_is_refused(log: SqlLog) -> None:
    row = {"user_id": "usr_1", "name": "editor", "value": "a\0b"}
    with pytest.raises(BadRequest, match="NUL character"):
        await log.change(lambda connection: connection.execute(insert(preferences).values(row)))
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message("a\0b")])  # events are bytes
    assert (await log.read(session_id))[1].event == message("a\0b")


async def test_a_server_that_is_not_there_is_named_without_the_password(tmp_path: Path) -> None:
    url = f"postgresql://hutch@/hutch?host={tmp_path}"
    location = PostgresqlDatabase(url, tmp_path, "tulip-anvil-19")
    with pytest.raises(Unavailable, match="cannot be reached") as refused:
        async with open_log(location, tmp_path / "blobs", tmp_path / "keys" / "signing.pem"):
            pass
    assert url in str(refused.value) and "tulip" not in f"{refused.value}{location!r}{location}"


def test_nothing_of_postgresql_is_loaded_until_a_url_names_it() -> None:
    script = (
        "import sys, hutch.app.local_sessions, hutch.app.server\n"
        "print([name for name in sys.modules if 'psycopg' in name or 'postgresql' in name])"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "['hutch.domain.postgresql_url']"
