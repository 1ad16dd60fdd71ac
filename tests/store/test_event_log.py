"""The event log on SQLite: durability, several processes, erased bytes, bad weather."""

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from pathlib import Path
from typing import cast

import pytest

from hutch.domain.errors import Conflict, Unavailable
from hutch.domain.events import Entry, ErasedEvent, MessageSent, SessionEnded, SessionOpened
from hutch.domain.ids import SessionId, new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store import log_head_signing
from hutch.store.database import open_database
from hutch.store.event_log import SqlLog, open_log
from hutch.store.exported_record_verifier import verify_record
from hutch.store.large_payload_files import Blobs
from hutch.store.log_write_sql import Transaction
from hutch.store.open_database import open_sqlite
from hutch.store.payload_retention import Pruned, prune
from hutch.store.record_export import export_record
from hutch.store.signed_log_head_statements import Signer
from tests.deadline import DEADLINE_S
from tests.forked_command import PLAIN, Forked

from .direct_sql import sql

pytestmark = [pytest.mark.anyio, pytest.mark.sqlite]


def message_event(text: str) -> MessageSent:
    return MessageSent(author="agent", text=text)


def python(script: str, *arguments: str) -> Forked:
    """Another process of ours, with its output to read."""
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.PIPE}
    return Forked([sys.executable, "-c", script, *arguments], env=PLAIN, text=True, **pipes)


APPEND_FROM_ANOTHER_PROCESS = """
import asyncio, sys
from pathlib import Path
from hutch.domain.events import MessageSent
from hutch.store.event_log import open_log

async def main(home, session_id, count):
    async with open_log(home / "hutch.db", home / "blobs", home / "keys" / "signing.pem") as log:
        print("ready", flush=True)
        sys.stdin.readline()
        for number in range(count):
            await log.append(session_id, [MessageSent(author="agent", text=f"{sys.argv[4]} {number}")])

asyncio.run(main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
"""


async def finished(process: subprocess.Popen[str]) -> int:
    return await asyncio.to_thread(process.wait, 60)


async def test_processes_racing_on_one_session_cannot_fork_it(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    racers = [
        python(APPEND_FROM_ANOTHER_PROCESS, str(tmp_path), session_id, "100", name)
        for name in ("a", "b", "c")
    ]
    for racer in racers:
        assert racer.stdout is not None and racer.stdin is not None
        assert await asyncio.to_thread(racer.stdout.readline) == "ready\n"
    for racer in racers:
        racer.stdin.write("go\n")  # type: ignore[union-attr]
        racer.stdin.close()  # type: ignore[union-attr]
    for number in range(100):
        await log.append(session_id, [message_event(f"d {number}")])
    assert [await finished(racer) for racer in racers] == [0, 0, 0]
    for racer in racers:
        racer.stdout.close()  # type: ignore[union-attr]
    entries = await log.read(session_id, limit=1000)
    assert [entry.seq for entry in entries] == list(range(1, 402))
    texts = [entry.event.text for entry in entries[1:]]  # type: ignore[union-attr]
    assert sorted(texts) == sorted(f"{name} {number}" for name in "abcd" for number in range(100))


async def test_a_follower_sees_what_another_process_writes(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    other = python(APPEND_FROM_ANOTHER_PROCESS, str(tmp_path), session_id, "50", "other")
    async with asyncio.timeout(DEADLINE_S), aclosing(log.follow(session_id)) as entries:
        assert (await anext(entries)).seq == 1
        other.stdin.write("go\n")  # type: ignore[union-attr]
        other.stdin.close()  # type: ignore[union-attr]
        assert [(await anext(entries)).seq for _ in range(50)] == list(range(2, 52))
    assert await finished(other) == 0
    other.stdout.close()  # type: ignore[union-attr]


async def test_a_follower_comes_to_an_end_when_the_log_is_closed(tmp_path: Path) -> None:
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])

        seen: list[int] = []
        follows = asyncio.Event()

        async def follow() -> int:
            async for entry in log.follow(session_id):
                seen.append(entry.seq)
                follows.set()
            return len(seen)

        follower = asyncio.create_task(follow())
        await follows.wait()
    assert await asyncio.wait_for(follower, DEADLINE_S) == 1
    with pytest.raises(Conflict, match="closed"):
        await log.append(session_id, [message_event("too late")])


async def test_an_unsigned_tail_is_signed_when_the_log_closes(tmp_path: Path) -> None:
    session_id = new_session_id()
    for event in (SessionOpened(), message_event("more")):
        async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
            await log.append(session_id, [event])
    rows = sql(tmp_path / "hutch.db", "SELECT kind, seq FROM statements")
    assert rows == [("checkpoint", 1), ("checkpoint", 2)]


async def test_a_tail_that_stays_unsigned_for_long_is_signed_by_time(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    started = time.monotonic()
    await log.append(session_id, [SessionOpened()])
    while not (rows := sql(tmp_path / "hutch.db", "SELECT kind, seq FROM statements")):
        assert time.monotonic() - started < DEADLINE_S
        await asyncio.sleep(0.1)
    assert rows == [("checkpoint", 1)]
    assert time.monotonic() - started >= log_head_signing.CHECKPOINT_INTERVAL_S - 0.2


def bytes_under(directory: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(directory.rglob("*")) if file.is_file())


async def test_an_erased_payload_leaves_no_bytes_on_disk(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    small, large = "correct horse", "battery staple " * 5000
    await log.append(
        session_id, [SessionOpened(), message_event(small), message_event(large), message_event("kept")]
    )
    on_disk = bytes_under(tmp_path)
    assert small.encode() in on_disk and b"battery staple" in on_disk
    await log.erase(session_id, [2, 3], reason="test")
    on_disk = bytes_under(tmp_path)
    assert small.encode() not in on_disk and b"battery staple" not in on_disk and b"kept" in on_disk


async def test_a_crash_between_erasing_and_deleting_the_blob_is_made_good(tmp_path: Path) -> None:
    session_id = new_session_id()
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(session_id, [SessionOpened(), message_event("battery staple " * 5000)])
        (blob,) = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
        copy = blob.read_bytes()
        await log.erase(session_id, [2], reason="test")
    blob.write_bytes(copy)  # as if the deletion had not happened
    sql(tmp_path / "hutch.db", "INSERT INTO blob_deletions VALUES (?)", given=(blob.name,))
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(session_id, [message_event("next")])
        assert not blob.exists()


async def test_erasing_goes_on_when_the_caller_has_gone(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(
        session_id,
        [SessionOpened(), message_event("battery staple"), message_event("battery staple " * 5000)],
    )
    erasing = asyncio.create_task(log.erase(session_id, None, reason="test"))
    while await log.count_payloads(session_id) == 3:
        pass
    erasing.cancel()
    await asyncio.gather(erasing, return_exceptions=True)
    deadline = time.monotonic() + DEADLINE_S
    while b"battery staple" in bytes_under(tmp_path):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_what_an_export_kept_is_scrubbed_after_it(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message_event("correct horse")])
    async with log.evidence(session_id, WHOLE):
        await log.erase(session_id, [2], reason="test")
        assert b"correct horse" in bytes_under(tmp_path)
    deadline = time.monotonic() + DEADLINE_S
    while b"correct horse" in bytes_under(tmp_path):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.05)


async def test_reading_while_payloads_are_erased_sees_each_whole_or_erased(log: SqlLog) -> None:
    session_id = new_session_id()
    await log.append(
        session_id, [SessionOpened(), *(message_event(f"{number} " * 9000) for number in range(60))]
    )

    async def erase() -> None:
        for seq in range(2, 62):
            await log.erase(session_id, [seq], reason="test")

    async def read() -> None:
        while not erasing.done():
            async for entry in entries_of(log, session_id):
                assert isinstance(entry.event, SessionOpened | MessageSent | ErasedEvent)

    erasing = asyncio.create_task(erase())
    await asyncio.gather(erasing, read(), read())


async def entries_of(log: SqlLog, session_id: SessionId) -> AsyncIterator[Entry]:
    after = 0
    while page := await log.read(session_id, after=after):
        for entry in page:
            yield entry
        after = page[-1].seq


async def test_a_session_that_was_erased_in_part_is_still_pruned(log: SqlLog) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message_event("one"), SessionEnded(outcome="done")])
    await log.erase(session_id, [1], reason="early")
    await asyncio.sleep(0.01)
    assert await prune(log, days=0, dry_run=True) == [Pruned(session_id, 2)]
    assert await prune(log, days=0) == [Pruned(session_id, 2)]
    assert await prune(log, days=0) == []


async def test_what_a_crash_left_beside_the_blobs_is_collected(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message_event("x" * 50_000)])
    (named,) = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
    orphan, draft = named.with_name("0" * 64), named.with_name(f"{named.name}#1")
    for file in (orphan, draft, named):
        file.write_bytes(file.read_bytes() if file.exists() else b"left by a crash")
        os.utime(file, (0, 0))
    fresh = named.with_name("1" * 64)
    fresh.write_bytes(b"its commit is on its way")
    assert await log.collect_garbage() == 2
    assert named.exists() and fresh.exists() and not orphan.exists() and not draft.exists()


async def test_heads_that_a_crash_left_unsigned_are_signed_with_the_next_write(tmp_path: Path) -> None:
    first, second = new_session_id(), new_session_id()
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(first, [SessionOpened()])
    # As if it had been killed before signing.
    sql(tmp_path / "hutch.db", "DELETE FROM statements", "UPDATE logs SET signed_seq = 0")
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(second, [SessionOpened()])
        rows = sql(tmp_path / "hutch.db", "SELECT kind, seq FROM statements")
    assert rows == [("checkpoint", 1)]


async def test_a_blob_that_cannot_be_deleted_does_not_stop_the_log(tmp_path: Path) -> None:
    session_id, name = new_session_id(), "ab" * 32
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(session_id, [SessionOpened()])
    (tmp_path / "blobs" / "ab" / name / "a directory").mkdir(parents=True)
    sql(tmp_path / "hutch.db", "INSERT INTO blob_deletions VALUES (?)", given=(name,))
    sql(tmp_path / "hutch.db", "DELETE FROM public_keys")
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        await log.append(session_id, [message_event("goes on")])
        async with log.evidence(session_id, WHOLE) as evidence:
            assert len(evidence.public_keys) == 1
        with pytest.raises(Unavailable):
            await log.erase(session_id, [2], reason="test")


@pytest.mark.parametrize("writers", [1, 4])
async def test_a_live_session_exports_a_good_record(log: SqlLog, tmp_path: Path, writers: int) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])

    async def write() -> None:
        while True:
            await log.append(session_id, [message_event("busy")])

    busy = [asyncio.create_task(write()) for _ in range(writers)]
    for number in range(25):
        acknowledged = (await log.head(session_id)).seq
        await export_record(log, session_id, tmp_path / f"{number}.zip", WHOLE, overwrite=False)
        report = await asyncio.to_thread(verify_record, tmp_path / f"{number}.zip")
        assert (report.problem, report.events >= acknowledged) == (None, True)
    for task in busy:
        task.cancel()


async def test_one_odd_call_hangs_nobody(log: SqlLog) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    async with asyncio.timeout(DEADLINE_S):
        await log.append(session_id, (message_event(str(number)) for number in range(3)))  # type: ignore[arg-type]
        for odd in (None, 7):
            with pytest.raises(TypeError):
                await log.append(session_id, odd)  # type: ignore[arg-type]
        assert (await log.append(session_id, [message_event("fine")])).seq == 5


async def test_a_connection_that_broke_is_replaced(tmp_path: Path) -> None:
    """The writer's transaction fails in the middle and cannot even be rolled back."""
    engine = open_database(tmp_path / "hutch.db")
    transaction = Transaction(engine)
    transaction.begin()
    transaction.add_key("lost", b"")
    cast(sqlite3.Connection, transaction.rows.connection.driver_connection).set_authorizer(
        lambda *_: sqlite3.SQLITE_DENY
    )
    transaction.rollback()
    transaction.begin()
    transaction.add_key("kept", b"")
    transaction.commit()
    transaction.close()
    engine.dispose()
    assert sql(tmp_path / "hutch.db", "SELECT fingerprint FROM public_keys") == [("kept",)]


async def test_a_log_belongs_to_its_own_event_loop(log: SqlLog) -> None:
    session_id = new_session_id()

    def elsewhere() -> None:
        asyncio.run(log.append(session_id, [SessionOpened()]))

    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        await asyncio.to_thread(elsewhere)
    assert await log.heads() == []


async def test_a_closed_log_says_so(tmp_path: Path) -> None:
    async with open_log(tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "key.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
    for ask in (log.read(session_id), log.head(session_id), log.append(session_id, [message_event("x")])):
        with pytest.raises(Conflict, match="closed"):
            await ask


async def test_closing_is_seen_through_when_it_is_cancelled(tmp_path: Path) -> None:
    database = open_sqlite(tmp_path / "hutch.db")
    log = SqlLog(database, Blobs(tmp_path / "blobs"), Signer.open(tmp_path / "key.pem"))
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    following = asyncio.create_task(anext(log.follow(session_id, after=1), None))
    while session_id not in log._notifier._subscriptions:  # noqa: ASYNC110  nothing reports a new subscription
        await asyncio.sleep(0.01)
    closing = asyncio.create_task(log.close())
    await asyncio.sleep(0)
    closing.cancel()
    assert await asyncio.wait_for(following, DEADLINE_S) is None
    await log.close()
    database.engine.dispose()


async def test_a_damaged_blob_is_not_taken_for_the_truth(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message_event("x" * 50_000)])
    (blob,) = [file for file in (tmp_path / "blobs").rglob("*") if file.is_file()]
    blob.write_bytes(blob.read_bytes().replace(b"xxx", b"yyy"))
    with pytest.raises(Unavailable, match="is damaged"):
        await log.read(session_id)


async def test_a_missing_blob_is_named(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened(), message_event("x" * 50_000)])
    shutil.rmtree(tmp_path / "blobs")
    with pytest.raises(Unavailable, match=r"Blob [0-9a-f]{64} is missing from .*Restore it"):
        await log.read(session_id)


async def test_a_clock_that_goes_back_does_not_reorder_a_log(log: SqlLog, tmp_path: Path) -> None:
    session_id = new_session_id()
    future_ms = time.time_ns() // 1_000_000 + 3_600_000
    await log.append(session_id, [SessionOpened()])
    # As if the clock was an hour ahead then.
    later = ("UPDATE logs SET at_ms = ?", "UPDATE events SET at_ms = ?")
    sql(tmp_path / "hutch.db", *later, given=(future_ms,))
    await log.append(session_id, [message_event("after the clock was mended")])
    assert [entry.at_ms for entry in await log.read(session_id)] == [future_ms, future_ms]


async def test_a_caller_who_gives_up_waiting_breaks_nothing(log: SqlLog) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    tasks = [
        asyncio.create_task(log.append(session_id, [message_event(str(number))])) for number in range(50)
    ]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    head = await log.append(session_id, [message_event("last")])
    assert [entry.seq for entry in await log.read(session_id)] == list(range(1, head.seq + 1))


def on_own_mount(
    mount: str, directory: Path, script: str, *arguments: str
) -> subprocess.CompletedProcess[str]:
    """Run a script with `directory` mounted in some way that only it sees."""
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    command += [
        f'{mount} && exec "$2" -c "$3" "$@"',
        "sh",
        str(directory),
        sys.executable,
        script,
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)


FILL_THE_DISK = """
import asyncio, sys
from pathlib import Path
from hutch.domain.errors import LimitReached
from hutch.domain.events import MessageSent, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.store.event_log import open_log

async def main(home):
    async with open_log(home / "hutch.db", home / "blobs", home / "keys" / "signing.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened()])
        acknowledged = 1
        try:
            while True:
                await log.append(session_id, [MessageSent(author="agent", text="x" * int(sys.argv[4]))])
                acknowledged += 1
        except LimitReached as error:
            print(error.limit, error)
        seqs = [entry.seq async for entry in read_all(log, session_id)]
        assert seqs == list(range(1, acknowledged + 1)), (seqs[-1], acknowledged)
        (home / "ballast").unlink()
        head = await log.append(session_id, [MessageSent(author="agent", text="room again")])
        assert head.seq == acknowledged + 1

async def read_all(log, session_id):
    after = 0
    while page := await log.read(session_id, after=after):
        for entry in page:
            yield entry
        after = page[-1].seq

home = Path(sys.argv[1])
(home / "ballast").write_bytes(bytes(1_000_000))
asyncio.run(main(home))
"""


@pytest.mark.parametrize("event_bytes", [1000, 100_000], ids=["inline", "blob"])
def test_a_full_disk_loses_nothing_and_is_reported(tmp_path: Path, event_bytes: int) -> None:
    mount = 'mount -t tmpfs -o size=6m none "$1"'
    done = on_own_mount(mount, tmp_path, FILL_THE_DISK, str(event_bytes))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("disk The disk that holds")
    assert "is full" in done.stdout


OPEN_THE_DATABASE = """
import sys
from pathlib import Path
from hutch.store.database import open_database

open_database(Path(sys.argv[1]) / "data" / "hutch.db")
"""


OPEN_ON_A_FULL_DISK = """
import sys
from contextlib import suppress
from pathlib import Path
from hutch.store.database import open_database

home = Path(sys.argv[1])
open_database(home / "data" / "hutch.db").dispose()
with suppress(OSError), open(home / "ballast", "wb", buffering=0) as ballast:
    while True:
        ballast.write(bytes(1024))
open_database(home / "data" / "hutch.db").connect()
"""


def test_a_disk_without_room_for_the_index_of_the_log_is_called_full(tmp_path: Path) -> None:
    done = on_own_mount('mount -t tmpfs -o size=6m none "$1"', tmp_path, OPEN_ON_A_FULL_DISK)
    assert "is full; nothing was written" in done.stderr.splitlines()[-1]


def test_a_read_only_data_directory_is_explained(tmp_path: Path) -> None:
    mount = 'mount --bind "$1" "$1" && mount -o remount,bind,ro "$1"'
    done = on_own_mount(mount, tmp_path, OPEN_THE_DATABASE)
    assert "Unavailable: Cannot write to" in done.stderr
    assert "set HUTCH_HOME to a directory that is" in done.stderr


@pytest.mark.parametrize("damage", ["not a database at all", "malformed"])
async def test_a_damaged_database_is_named_with_the_way_out(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "hutch.db"
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem") as log:
        session_id = new_session_id()
        await log.append(session_id, [SessionOpened(), *(message_event("x" * 500) for _ in range(500))])
    content = bytearray(path.read_bytes())
    if damage == "malformed":
        content[4096 * 2 :] = os.urandom(len(content) - 4096 * 2)
    else:
        content[:100] = b"?" * 100
    path.write_bytes(content)
    with pytest.raises(Unavailable, match=r"damaged .*sqlite3 .*hutch.db .recover"):
        async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem") as log:
            await log.read(session_id)
    assert path.read_bytes() == content


async def test_a_locked_database_is_an_error_and_not_a_hang(tmp_path: Path) -> None:
    session_id, path = new_session_id(), tmp_path / "hutch.db"
    async with open_log(path, tmp_path / "blobs", tmp_path / "key.pem", busy_timeout_s=0.2) as log:
        await log.append(session_id, [SessionOpened()])
        with closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(Unavailable, match="locked by another process"):
                await log.append(session_id, [message_event("waiting")])
            other.execute("ROLLBACK")
        assert (await log.append(session_id, [message_event("free again")])).seq == 2


async def test_the_loop_stays_free_while_a_large_payload_is_written(log: SqlLog) -> None:
    session_id = new_session_id()
    await log.append(session_id, [SessionOpened()])
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.001)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await log.append(session_id, [message_event("x" * 15_000_000) for _ in range(8)])
    ticking.cancel()
    assert ticks > 5
