"""Writing a record: whole or not at all, and always the same."""

import asyncio
import subprocess
import sys
import tracemalloc
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.store.exported_record_verifier import verify_record
from hutch.store.hash_chain import Record, link
from hutch.store.record_format import FILES, README
from hutch.store.record_zip_writer import write_record

from .handmade_records import (
    FOREIGN_SIGNER,
    OTHER_SESSION,
    SESSION,
    SIGNER,
    chain,
    sealed,
    sign,
    story,
    stream,
    unpack,
)

KEYS = {SIGNER.fingerprint: SIGNER.public_key}


def test_record_holds_its_five_files(tmp_path: Path) -> None:
    log = sealed(texts=2)
    files = unpack(log.write(tmp_path / "record.zip"))
    lines = [orjson.loads(line) for line in files["events.ndjson"].splitlines()]
    assert tuple(files) == FILES
    assert files["README.txt"] == README
    assert README.count(b"\n") == 5
    assert orjson.loads(files["manifest.json"]) == {
        "format": "hutch-record",
        "version": 1,
        "session": SESSION,
        "events": 4,
        "head": log.records[-1].hash,
    }
    assert lines[1] == {
        "seq": 2,
        "at_ms": log.records[1].at_ms,
        "type": "message.sent",
        "salt": (log.records[1].salt or b"").hex(),
        "payload": '{"author":"user","text":"Nº 0\\n","type":"message.sent","v":1}',
        "payload_hash": log.records[1].payload_hash,
        "hash": log.records[1].hash,
    }
    assert [orjson.loads(line) for line in files["statements.ndjson"].splitlines()] == [
        each.to_json() for each in sorted(log.statements, key=lambda each: each.seq)
    ]


def test_erased_event_has_neither_salt_nor_payload(tmp_path: Path) -> None:
    log = sealed().at(2, salt=None, payload=None)
    line = orjson.loads(unpack(log.write(tmp_path / "record.zip"))["events.ndjson"].splitlines()[1])
    assert (line["salt"], line["payload"]) == (None, None)


def test_same_log_gives_the_same_bytes(tmp_path: Path) -> None:
    log = sealed()
    shuffled = replace(log, statements=log.statements[::-1])
    assert log.write(tmp_path / "a.zip").read_bytes() == shuffled.write(tmp_path / "b.zip").read_bytes()


def test_record_is_private_to_its_owner(tmp_path: Path) -> None:
    assert sealed().write(tmp_path / "record.zip").stat().st_mode & 0o777 == 0o600


def test_existing_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "record.zip"
    path.write_text("mine")
    with pytest.raises(Conflict, match=r"record\.zip exists\. Choose another name"):
        _write(path, stream(chain(story(1))))
    assert (path.read_text(), _names(tmp_path)) == ("mine", ["record.zip"])


def test_file_that_appears_meanwhile_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "record.zip"

    async def records() -> AsyncIterator[Record]:
        for each in chain(story(1)):
            yield each
        path.write_text("mine")

    with pytest.raises(Conflict):
        _write(path, records())
    assert (path.read_text(), _names(tmp_path)) == ("mine", ["record.zip"])


def test_overwriting_is_possible_when_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "record.zip"
    path.write_text("old")
    _write(path, stream(chain(story(1))), overwrite=True)
    assert (list(unpack(path)), _names(tmp_path)) == (list(FILES), ["record.zip"])


def test_error_midway_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "record.zip"
    path.write_text("old")

    async def records() -> AsyncIterator[Record]:
        yield chain(story(1))[0]
        raise Unavailable("The database is gone.")

    with pytest.raises(Unavailable, match="The database is gone"):
        _write(path, records(), overwrite=True)
    assert (path.read_text(), _names(tmp_path)) == ("old", ["record.zip"])


@pytest.mark.parametrize("delay_s", [0, 0.002, 0.01, 0.05])
def test_cancelling_leaves_nothing_behind(tmp_path: Path, delay_s: float) -> None:
    line = chain([story(1)[0], b'{"type":"message.sent","text":"%s"}' % (b"ab" * 1_000_000)])

    async def endless() -> AsyncIterator[Record]:
        while True:
            yield line[1]  # two chunks' worth, so that a thread is nearly always writing

    async def cancel() -> None:
        task = asyncio.create_task(_export(tmp_path / "record.zip", endless()))
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert _names(tmp_path) == []


def test_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    script = """
import resource, sys
from pathlib import Path
from hutch.domain.errors import Unavailable
sys.path.insert(0, sys.argv[1])
from handmade_records import sealed
log = sealed(3000)
resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))
try:
    log.write(Path(sys.argv[2]) / "record.zip")
except Unavailable as error:
    print(error)
"""
    arguments = [sys.executable, "-c", script, str(Path(__file__).parent), str(tmp_path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert "could not be written to" in done.stdout and "free some space" in done.stdout
    assert (done.stderr, _names(tmp_path)) == ("", [])


def test_missing_folder_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=r"The folder .*/nowhere does not exist\. Create it first"):
        _write(tmp_path / "nowhere" / "record.zip", stream(chain(story(1))))


def test_session_without_events_is_not_exported(tmp_path: Path) -> None:
    with pytest.raises(BadRequest, match=f"{SESSION} has no events"):
        _write(tmp_path / "record.zip", stream([]))
    assert _names(tmp_path) == []


def test_statement_by_a_key_that_is_not_known_is_not_exported(tmp_path: Path) -> None:
    log = sealed()
    with pytest.raises(
        Unavailable, match=f"checkpoint of event 4 is signed with key {FOREIGN_SIGNER.fingerprint}"
    ):
        log.saying(sign("checkpoint", log.records[3], FOREIGN_SIGNER)).write(tmp_path / "record.zip")


def test_event_of_another_session_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=OTHER_SESSION):
        _write(tmp_path / "record.zip", stream(chain(story(1), OTHER_SESSION)))
    assert _names(tmp_path) == []


def test_long_log_needs_little_memory_to_write_and_to_verify(tmp_path: Path) -> None:
    """Thirty megabytes of events pass through a few."""
    path, count = tmp_path / "record.zip", 3000

    async def records() -> AsyncIterator[Record]:
        record = chain(story(0))[0]
        yield record
        for seq in range(2, count + 2):
            record = _after(record, b'{"text":"%s","type":"message.sent"}' % (b"%d " % seq * 2000))
            yield record

    tracemalloc.start()
    try:
        asyncio.run(_export(path, records()))
        report = verify_record(path)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert report.events == count + 1
    assert report.problem == "Event 1 is not signed: no valid statement covers it or one after it."
    assert peak < 12_000_000


def _after(last: Record, payload: bytes) -> Record:
    made = replace(chain([payload])[0], seq=last.seq + 1, at_ms=last.at_ms)
    return replace(made, hash=link(SESSION, made.seq, made.at_ms, made.type, made.payload_hash, last.hash))


async def _export(path: Path, records: AsyncIterator[Record], *, overwrite: bool = False) -> None:
    await write_record(
        path, session_id=SESSION, records=records, statements=[], public_keys=KEYS, overwrite=overwrite
    )


def _write(path: Path, records: AsyncIterator[Record], *, overwrite: bool = False) -> None:
    asyncio.run(_export(path, records, overwrite=overwrite))


def _names(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())
