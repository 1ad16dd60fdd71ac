"""Whatever is done to a record shows, and the first bad event is named."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.domain.errors import BadRequest, NotFound
from hutch.store.exported_record_verifier import Report, verify_record
from hutch.store.hash_chain import link
from hutch.store.receipt_file_reader import read_receipt
from hutch.store.record_format import FILES, MAX_PAYLOAD_BYTES, MAX_PAYLOAD_VALUES, README, statement_line
from hutch.store.signed_log_head_statements import Statement
from tests.hypothesis_examples import examples

from .handmade_records import (
    FOREIGN_SIGNER,
    OTHER_SESSION,
    SESSION,
    SIGNER,
    Sealed,
    chain,
    pack,
    sealed,
    sign,
    story,
    unpack,
)

ROOT = Path(__file__).parents[2]
VECTORS = ROOT / "docs" / "vectors"
EXPECTED = json.loads((VECTORS / "expected.json").read_text())
UNPINNED = (
    "No key was given, and anybody can sign a record with a key of their own. "
    "Give the fingerprint of the installation's key, from somebody you trust."
)

OURS = SIGNER.fingerprint
THEIRS = FOREIGN_SIGNER.fingerprint
GOOD = sealed()  # seven events: opened, five messages, ended; signed at 4 and 7
OPEN = sealed(ended=False)  # six events; signed at 4 and 6
OTHER = sealed(session_id=OTHER_SESSION)
ERASED = replace(
    GOOD.at(3, salt=None, payload=None), statements=[*GOOD.statements, sign("erasure", GOOD.records[2])]
)


def test_good_record_is_reported_in_full(tmp_path: Path) -> None:
    assert verify_record(GOOD.write(tmp_path / "record.zip"), keys=[OURS]) == Report(
        ok=True,
        session=SESSION,
        events=7,
        erased=0,
        gaps=0,
        omitted=0,
        ended=True,
        keys=(OURS,),
        pinned=True,
        receipts=0,
        first_bad=None,
        problem=None,
        warnings=(),
    )


def test_report_says_what_a_good_record_does_not_prove(tmp_path: Path) -> None:
    signers = [SIGNER, FOREIGN_SIGNER]
    statements = [*OPEN.statements, sign("erasure", OPEN.records[2], FOREIGN_SIGNER)]
    log = replace(OPEN.at(3, salt=None, payload=None), statements=statements, signers=signers)
    report = verify_record(log.write(tmp_path / "record.zip"))
    assert (report.ok, report.ended, report.erased, report.pinned) == (True, False, 1, False)
    assert report.keys == tuple(sorted([OURS, THEIRS]))
    assert report.warnings == (
        UNPINNED,
        "The statements are signed by 2 keys: see that you trust them all.",
        "The session has not ended: events after 6 may have been cut off. "
        "Only a receipt from later would show it.",
        "1 of 6 payloads were erased, by signed statement.",
    )


def test_erased_payload_keeps_the_record_good(tmp_path: Path) -> None:
    report = verify_record(ERASED.write(tmp_path / "record.zip"), keys=[OURS])
    assert (report.ok, report.erased) == (True, 1)
    assert report.warnings == ("1 of 7 payloads were erased, by signed statement.",)


@pytest.mark.parametrize(
    ("counts", "omitted", "said"),
    [
        ([3, 0], 3, "2 times, for 3 events or more."),
        ([0], 0, "1 times, for an unknown number of events."),  # the server was killed
        ([-5, "many", True, None, 2.5], 0, "5 times, for an unknown number of events."),  # signed nonsense
    ],
)
def test_gaps_that_the_record_admits_are_counted(
    tmp_path: Path, counts: list[Any], omitted: int, said: str
) -> None:
    opened, *_, ended = story(0)
    gaps = [{"type": "events.omitted", "v": 1, "cause": "limit", "count": count} for count in counts]
    records = chain([opened, *gaps, ended])
    log = Sealed(records, [sign("end", records[-1])])
    report = verify_record(log.write(tmp_path / "record.zip"), keys=[OURS])
    assert (report.ok, report.gaps, report.omitted) == (True, len(counts), omitted)
    assert report.warnings == (f"Not everything was recorded: events.omitted stands in the record {said}",)


def test_an_erased_gap_is_still_a_gap(tmp_path: Path) -> None:
    opened, *_, ended = story(0)
    records = chain([opened, {"type": "events.omitted", "v": 1, "count": 3}, ended])
    log = Sealed(records, [sign("end", records[-1]), sign("erasure", records[1])])
    report = verify_record(log.at(2, salt=None, payload=None).write(tmp_path / "record.zip"), keys=[OURS])
    assert (report.ok, report.erased, report.gaps, report.omitted) == (True, 1, 1, 0)


def _swapped(log: Sealed) -> Sealed:
    first, second, third, *rest = log.records
    return replace(log, records=[first, third, second, *rest])


def _renumbered(log: Sealed) -> Sealed:
    """Event 3 taken out, the rest moved up, their links left."""
    records = log.without(3).records
    return replace(log, records=[replace(each, seq=seq) for seq, each in enumerate(records, 1)])


def _remade(log: Sealed, events: list[Any]) -> Sealed:
    return replace(log, records=chain(events))


def _back_in_time(log: Sealed) -> Sealed:
    """An early time at event 5, with its link made to fit."""
    fifth = replace(log.records[4], at_ms=log.records[3].at_ms - 1)
    hash_ = link(SESSION, 5, fifth.at_ms, fifth.type, fifth.payload_hash, log.records[3].hash)
    return log.at(5, at_ms=fifth.at_ms, hash=hash_)


def _signed(events: list[Any]) -> Sealed:
    """Records that only a faulty installation could make: bad events under good signatures."""
    records = chain(events)
    return Sealed(
        records, [sign("end" if records[-1].type == "session.ended" else "checkpoint", records[-1])]
    )


def _ended_early() -> Sealed:
    """Ended and signed as such at event 3, and then something more."""
    log = _signed(story(1) + story(1)[1:2])
    return log.saying(sign("end", log.records[2]), *log.statements)


def _payload(text: bytes) -> Sealed:
    return _signed([story(0)[0], text])


def _forged(log: Sealed, **changes: Any) -> Sealed:
    """The statement at event 4 changed, its signature left."""
    return log.saying(replace(log.statements[0], **changes), *log.statements[1:])


TAMPERED: dict[str, tuple[Sealed, int | None, str]] = {
    "payload changed": (GOOD.at(3, payload=b'{"type":"message.sent"}'), 3, "payload is not the one"),
    "salt changed": (GOOD.at(3, salt=bytes(16)), 3, "payload is not the one"),
    "payload hash changed": (GOOD.at(3, payload_hash="0" * 64), 3, "hash does not fit"),
    "link changed": (GOOD.at(3, hash="0" * 64), 3, "hash does not fit"),
    "time changed": (GOOD.at(3, at_ms=GOOD.records[2].at_ms + 1), 3, "hash does not fit"),
    "type changed": (GOOD.at(3, type="message.read"), 3, "hash does not fit"),
    "time goes back": (_back_in_time(GOOD), 5, "before event 4"),
    "event missing": (GOOD.without(3), 3, "Event 3 is missing: event 4"),
    "event missing, others renumbered": (_renumbered(GOOD), 3, "hash does not fit"),
    "first event missing": (GOOD.without(1), 1, "Event 1 is missing: event 2"),
    "events swapped": (_swapped(GOOD), 2, "Event 2 is missing: event 3"),
    "event doubled": (replace(GOOD, records=[*GOOD.records[:3], *GOOD.records[2:]]), 4, "event 3 stands in"),
    "event of another session": (
        replace(
            GOOD,
            records=[*GOOD.records[:2], replace(OTHER.records[2], session_id=SESSION), *GOOD.records[3:]],
        ),
        3,
        "hash does not fit",
    ),
    "last event cut, statements kept": (GOOD.without(7), 7, "truncated: it ends at event 6"),
    "last event and its statement cut": (
        GOOD.without(7).saying(GOOD.statements[0]),
        5,
        "Event 5 is not signed",
    ),
    "no statements": (GOOD.without(7).saying(), 1, "Event 1 is not signed"),
    "end without its statement": (
        GOOD.saying(GOOD.statements[0], sign("checkpoint", GOOD.records[6])),
        7,
        "no end statement",
    ),
    "chain remade": (_remade(GOOD, story(2) + story(2)[1:]), 4, "an event from 1 to 4 was changed"),
    "chain remade after a checkpoint": (
        replace(GOOD, records=[*GOOD.records[:5], *chain([*story(5)[:5], *story(6)[6:]])[5:]]),
        7,
        "an event from 5 to 7 was changed",
    ),
    "statement of another session": (GOOD.saying(*OTHER.statements, *GOOD.statements), 4, OTHER_SESSION),
    "statement's hash changed": (_forged(GOOD, hash="0" * 64), 4, "false signature"),
    "statement's time changed": (_forged(GOOD, at_ms=1), 4, "false signature"),
    "statement's reason changed": (_forged(GOOD, reason="because"), 4, "false signature"),
    "statement's kind changed": (_forged(GOOD, kind="receipt"), 4, "false signature"),
    "statement moved": (_forged(GOOD, seq=3), 3, "false signature"),
    "statement's signature cleared": (_forged(GOOD, signature=bytes(64)), 4, "false signature"),
    "statement says another key": (
        replace(_forged(GOOD, key=THEIRS), signers=[SIGNER, FOREIGN_SIGNER]),
        4,
        "false signature",
    ),
    "statement beyond the end, forged": (
        OPEN.saying(*OPEN.statements, replace(OPEN.statements[1], seq=9)),
        7,
        "false signature",
    ),
    "true statement about another hash": (
        GOOD.saying(sign("checkpoint", replace(GOOD.records[3], hash="0" * 64)), *GOOD.statements),
        4,
        "another hash than its checkpoint",
    ),
    "signed as the end, but it is not": (
        OPEN.saying(sign("end", OPEN.records[5])),
        6,
        "signed as the end of the session, but it is message.sent",
    ),
    "statement repeated": (
        GOOD.saying(*GOOD.statements, GOOD.statements[0]),
        4,
        "Event 4 has more than one checkpoint statement",
    ),
    "end signed twice, by two keys": (
        replace(GOOD, signers=[SIGNER, FOREIGN_SIGNER]).saying(
            *GOOD.statements, sign("end", GOOD.records[6], FOREIGN_SIGNER)
        ),
        7,
        "Event 7 has more than one end statement",
    ),
    "payload missing": (GOOD.at(3, salt=None, payload=None), 3, "no statement says it was erased"),
    "payload missing, salt kept": (
        replace(ERASED, records=GOOD.at(3, payload=None).records),
        3,
        "missing, though it was not erased",
    ),
    "salt missing": (GOOD.at(3, salt=None), 3, "salt is missing"),
    "erased, but here": (replace(ERASED, records=GOOD.records), 3, "but it is here"),
    "erasure of another payload": (
        ERASED.saying(*GOOD.statements, sign("erasure", replace(GOOD.records[2], payload_hash="0" * 64))),
        3,
        "is another one",
    ),
    "erasure of another event": (
        ERASED.saying(*GOOD.statements, sign("erasure", replace(GOOD.records[2], seq=2))),
        2,
        "but it is here",
    ),
    "an erasure covers nothing": (
        Sealed(
            [replace(OPEN.records[0], salt=None, payload=None)],
            [sign("erasure", OPEN.records[0])],
        ),
        1,
        "Event 1 is not signed",
    ),
    "does not start with session.opened": (_signed(story(2)[1:]), 1, "starts with session.opened"),
    "something follows session.ended": (_ended_early(), 4, "follows session.ended"),
    "payload of another type": (_payload(b'{"type":"message.read"}'), 2, "filed as 'message.sent'"),
    "payload without a type": (_payload(b"{}"), 2, "of type None"),
    "payload not an object": (_payload(b'["type"]'), 2, "a list, not an object"),
    "payload not JSON": (_payload(b'{"type":'), 2, "not good JSON"),
    "payload with NaN": (_payload(b'{"n":NaN,"type":"message.sent"}'), 2, "not good JSON"),
    "payload with a repeated name": (
        _payload(b'{"type":"x","type":"message.sent"}'),
        2,
        "a name is repeated",
    ),
    "payload with a repeated name inside": (
        _payload(b'{"a":[{"b":1,"b":2}],"type":"message.sent"}'),
        2,
        "a name is repeated",
    ),
    "payload with a repeated name and quotes": (
        _payload(b'{"a":":\\":","\\"":{"b":[1,"\\\\"],"b":2},"type":"message.sent"}'),
        2,
        "a name is repeated",
    ),
    "payload with an infinite number": (_payload(b'{"n":1e999,"type":"message.sent"}'), 2, "not good JSON"),
    "payload too long": (
        _payload(b'{"a":"%s","type":"message.sent"}' % (b"x" * MAX_PAYLOAD_BYTES)),
        2,
        "over the limit of 16777216",
    ),
    "payload of too many values": (
        _payload(b'{"a":[%s{}],"type":"message.sent"}' % (b"{}," * MAX_PAYLOAD_VALUES)),
        2,
        "more than 1000000 names and values",
    ),
    "payload nested too deep to read": (
        _payload(b'{"a":%s%s,"type":"message.sent"}' % (b"[" * 100_000, b"]" * 100_000)),
        2,
        "not good JSON",
    ),
    "payload nested too deep to write": (
        _payload(b'{"a":%s%s,"type":"message.sent"}' % (b"[" * 500, b"]" * 500)),
        2,
        "not good JSON",
    ),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_tampering_is_found_at_the_first_bad_event(tmp_path: Path, name: str) -> None:
    log, first_bad, words = TAMPERED[name]
    report = verify_record(log.write(tmp_path / "record.zip"))
    assert (report.ok, report.first_bad, report.session) == (False, first_bad, SESSION)
    assert words in (report.problem or "")


def test_payload_that_is_good_but_not_canonical_is_accepted(tmp_path: Path) -> None:
    log = _payload(
        b'{ "type": "message.sent", "text": "\\u0041\\":\\\\", "b": {"n": 1.0}, "c": {"n": [":"]} }'
    )
    assert verify_record(log.write(tmp_path / "record.zip")).ok


@pytest.mark.parametrize("text", [b'\\"' * (MAX_PAYLOAD_BYTES // 2 - 100), b"x, {[:" * 2_000_000])
def test_largest_payload_of_a_writer_is_accepted(tmp_path: Path, text: bytes) -> None:
    """Escaped, and escaped again in its line."""
    log = _payload(b'{"text":"%s","type":"message.sent"}' % text)
    assert verify_record(log.write(tmp_path / "record.zip")).ok


HOSTILE = {
    "objects": (b'{"a":[', b"{},", b'1],"type":"message.sent", "z":1}'),
    "names": (b'{"a":[', b'{"":1},', b'1],"type":"message.sent", "z":1}'),
    "lists": (b'{"a":[', b"[],", b'1],"type":"message.sent", "z":1}'),
    "strings": (b'{"a":[', b'"",', b'1],"type":"message.sent", "z":1}'),
    "no end": (b'{"a":"', b'\\"', b""),
    "quotes": (b'{"a":', b'"', b""),
    "just allowed": (
        '{"s":"🐇%s","a":['.encode() % (b"x" * 14 * 1024**2),
        b'{"":1},',
        b'1],"type":"message.sent"}',
    ),
    "emoji": ('{"a":"🐇'.encode(), b"x", b'","type":"message.sent", "z":1}'),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_payload_costs_little(tmp_path: Path, name: str) -> None:
    """As long as a payload may be, and as costly to read: a small file, since it packs so well."""
    begin, unit, end = HOSTILE[name]
    times = (MAX_PAYLOAD_BYTES - len(begin) - len(end)) // len(unit)
    path = _payload(begin + unit * times + end).write(tmp_path / "record.zip")
    assert path.stat().st_size < 100_000
    used = _cost(path)
    assert used["seconds"] < 4
    assert used["rss_bytes"] < 400 * 1024**2  # measured below 300; as trees some took 2000


def test_line_longer_than_any_payload_needs_costs_little(tmp_path: Path) -> None:
    path = _payload(b'{"a":"%s"}' % (b"\x01" * (2 * MAX_PAYLOAD_BYTES))).write(tmp_path / "record.zip")
    used = _cost(path)
    assert "longer than" in used["problem"]
    assert used["rss_bytes"] < 250 * 1024**2


def test_many_statements_cost_no_more_than_two(tmp_path: Path) -> None:
    files = unpack(GOOD.write(tmp_path / "record.zip"))
    first, second = files["statements.ndjson"].splitlines(keepends=True)
    for statements in (first * 100_000 + second, first + second * 100_000):
        path = pack(tmp_path / "bad.zip", files | {"statements.ndjson": statements})
        used = _cost(path)
        assert "more than one" in used["problem"]
        assert used["seconds"] < 1


def _cost(path: Path) -> dict[str, Any]:
    """The time and memory to verify a record, in its own process."""
    script = """
import json, re, sys, time
from pathlib import Path
from hutch.store.exported_record_verifier import verify_record
start = time.process_time()
report = verify_record(Path(sys.argv[1]))
seconds, status = time.process_time() - start, Path("/proc/self/status").read_text()
rss_bytes = 1024 * int(re.search(r"VmHWM:\\s*(\\d+)", status)[1])
print(json.dumps({"problem": report.problem, "seconds": seconds, "rss_bytes": rss_bytes}))
"""
    arguments = [sys.executable, "-c", script, str(path)]
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def _on_line(number: int, **changes: Any) -> Callable[[bytes], bytes]:
    """Change fields of one line, keeping it canonical."""

    def change(content: bytes) -> bytes:
        lines = content.splitlines(keepends=True)
        fields = orjson.loads(lines[number - 1]) | changes
        kept = {name: value for name, value in fields.items() if value is not ...}
        lines[number - 1] = orjson.dumps(kept, option=orjson.OPT_SORT_KEYS) + b"\n"
        return b"".join(lines)

    return change


def _replacing(old: bytes, new: bytes) -> Callable[[bytes], bytes]:
    return lambda content: content.replace(old, new, 1)


MALFORMED: list[tuple[str, Callable[[bytes], bytes], int | None, str]] = [
    ("manifest.json", _on_line(1, events=6), 7, "speaks of 6 events, and the record holds 7"),
    ("manifest.json", _on_line(1, events=9), 8, "speaks of 9 events, and the record holds 7"),
    ("manifest.json", _on_line(1, events=True), None, "events is True"),
    ("manifest.json", _on_line(1, head="0" * 64), 7, "another hash for the last event"),
    ("manifest.json", _on_line(1, session=OTHER_SESSION), 1, "hash does not fit"),
    ("manifest.json", _on_line(1, session="../../etc"), None, "not a session id"),
    ("manifest.json", _on_line(1, session=7), None, "not a session id"),
    ("manifest.json", _on_line(1, format="zip"), None, "its format is 'zip'"),
    ("manifest.json", _on_line(1, version=2), None, "try a newer one"),
    ("manifest.json", _on_line(1, version=True), None, "its version is True"),
    ("manifest.json", _on_line(1, extra=1), None, "unknown 'extra'"),
    ("manifest.json", _on_line(1, head=...), None, "lacks 'head'"),
    ("manifest.json", _replacing(b"{", b"{ "), None, "not canonical JSON"),
    ("manifest.json", _replacing(b"\n", b""), None, "cut short"),
    ("manifest.json", _replacing(b"\n", b"\n\n"), None, "not canonical JSON"),
    ("manifest.json", lambda _: b"[]\n", None, "a list, not an object"),
    ("manifest.json", lambda _: b"\xff\n", None, "not good JSON"),
    ("manifest.json", lambda _: b"{" + b" " * 5000 + b"}\n", None, "over its limit of 4096"),
    ("keys.json", _on_line(1, **{OURS: "AAAA"}), None, "not 32 bytes in base64"),
    ("keys.json", _on_line(1, **{OURS: 1}), None, "not 32 bytes in base64"),
    ("keys.json", _on_line(1, **{THEIRS: "A" * 43 + "="}), None, "has the fingerprint"),
    ("keys.json", lambda _: b"{}\n", 4, "which is not in keys.json"),
    ("keys.json", lambda _: b"{" + b" " * 70_000 + b"}\n", None, "over its limit of 65536"),
    ("events.ndjson", lambda _: b"", 1, "truncated"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":2.0'), 2, "seq is 2.0"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":1,"seq":2'), 2, "not canonical JSON"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq": 2'), 2, "not canonical JSON"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":NaN'), 2, "not good JSON"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":' + b"[" * 9999), 2, "not good JSON"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":' + b"[" * 500 + b"]" * 500), 2, "not good JSON"),
    ("events.ndjson", _replacing(b'"seq":2', b'"seq":' + b"9" * 5000), 2, "not good JSON"),
    ("events.ndjson", _replacing(b"\n", b"\r\n"), 1, "not canonical JSON"),
    ("events.ndjson", _replacing(b"\n", b"\n\n"), 2, "not good JSON"),
    ("events.ndjson", lambda content: content[:-1], 7, "line 7 has no end"),
    ("events.ndjson", lambda content: content + b"{}", None, "line 8 has no end"),
    ("events.ndjson", _on_line(1, seq=True), 1, "seq is True"),
    ("events.ndjson", _on_line(2, seq=0), 2, "seq is 0"),
    ("events.ndjson", _on_line(2, seq=2**53), 2, "not a whole number from 1"),
    ("events.ndjson", _on_line(2, at_ms=-1), 2, "at_ms is -1"),
    ("events.ndjson", _on_line(2, at_ms=2**52), 2, "not a whole number from 0"),
    ("events.ndjson", _on_line(2, type='x","v":2'), 2, "its type is"),
    ("events.ndjson", _on_line(2, type="message.sent\n"), 2, "its type is"),
    ("events.ndjson", _on_line(2, type="m" * 101), 2, "its type is"),
    ("events.ndjson", _on_line(2, type=None), 2, "its type is None"),
    ("events.ndjson", _on_line(2, salt="00"), 2, "not 32 lower-case hex digits"),
    ("events.ndjson", _on_line(2, salt="g" * 32), 2, "not 32 lower-case hex digits"),
    ("events.ndjson", _on_line(2, salt=7), 2, "not 32 lower-case hex digits"),
    ("events.ndjson", _on_line(2, payload={"type": "message.sent"}), 2, "an object, not a string"),
    ("events.ndjson", _on_line(2, payload_hash="A" * 64), 2, "not 64 lower-case hex digits"),
    ("events.ndjson", _on_line(2, hash="٠" * 64), 2, "not 64 lower-case hex digits"),
    ("events.ndjson", _on_line(2, salt=...), 2, "lacks 'salt'"),
    ("events.ndjson", _on_line(2, session=SESSION), 2, "unknown 'session'"),
    ("statements.ndjson", lambda content: content[:-1], None, "statements.ndjson is cut short"),
    ("statements.ndjson", _replacing(b"\n", b"\nnull\n"), None, "Line 2 of statements.ndjson: it is None"),
    ("statements.ndjson", lambda content: b"".join(content.splitlines(True)[::-1]), 4, "out of order"),
    ("statements.ndjson", _on_line(1, kind="promise"), None, "kind is 'promise'"),
    ("statements.ndjson", _on_line(1, kind=["end"]), None, "kind is a list"),
    ("statements.ndjson", _on_line(1, reason=None), None, "reason is None"),
    ("statements.ndjson", _on_line(1, reason="x" * 70_000), None, "longer than 65536 bytes"),
    ("statements.ndjson", _on_line(1, seq=False), None, "seq is False"),
    ("statements.ndjson", _on_line(1, key="x"), None, "not 64 lower-case hex digits"),
    ("statements.ndjson", _on_line(1, session="ses_"), None, "not a session id"),
    ("statements.ndjson", _on_line(1, signature="AAAA"), None, "not 64 bytes in base64"),
    ("statements.ndjson", _replacing(b'=="', b'"'), None, "not 64 bytes in base64"),
    ("statements.ndjson", _on_line(1, key=THEIRS), 4, f"signed by {THEIRS}, which is not in keys.json"),
]


@pytest.mark.parametrize(("name", "change", "first_bad", "words"), MALFORMED)
def test_malformed_file_is_reported(
    tmp_path: Path, name: str, change: Callable[[bytes], bytes], first_bad: int | None, words: str
) -> None:
    files = unpack(GOOD.write(tmp_path / "record.zip"))
    files[name] = change(files[name])
    report = verify_record(pack(tmp_path / "bad.zip", files))
    assert (report.ok, report.first_bad) == (False, first_bad)
    assert words in (report.problem or "")


def test_signature_with_stray_bits_in_its_last_character_is_refused(tmp_path: Path) -> None:
    files = unpack(GOOD.write(tmp_path / "record.zip"))
    at = files["statements.ndjson"].index(b'=="') - 1
    stray = bytes([files["statements.ndjson"][at] + 1])
    files["statements.ndjson"] = (
        files["statements.ndjson"][:at] + stray + files["statements.ndjson"][at + 1 :]
    )
    assert "not 64 bytes in base64" in (verify_record(pack(tmp_path / "bad.zip", files)).problem or "")


@pytest.mark.parametrize("readme", [b"Run verify.exe.\n", README[:-1], README + b"\n", b""])
def test_other_readme_is_refused(tmp_path: Path, readme: bytes) -> None:
    files = unpack(GOOD.write(tmp_path / "record.zip")) | {"README.txt": readme}
    report = verify_record(pack(tmp_path / "odd.zip", files), keys=[OURS])
    assert (report.ok, report.first_bad) == (False, None)
    assert (report.problem or "").startswith("README.txt ")


def test_record_without_events_is_refused(tmp_path: Path) -> None:
    files = unpack(GOOD.write(tmp_path / "record.zip")) | {"events.ndjson": b"", "statements.ndjson": b""}
    report = verify_record(pack(tmp_path / "bad.zip", files))
    assert (report.ok, report.first_bad) == (False, 1)
    assert report.problem == "The record holds no events: not even session.opened."


@settings(
    max_examples=examples(400), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_changed_byte_shows(tmp_path: Path, data: st.DataObject) -> None:
    files = unpack(ERASED.write(tmp_path / "record.zip"))
    name = data.draw(st.sampled_from(FILES))
    at = data.draw(st.integers(0, len(files[name]) - 1))
    new = data.draw(st.integers(0, 255).filter(lambda byte: byte != files[name][at]))
    files[name] = files[name][:at] + bytes([new]) + files[name][at + 1 :]
    report = verify_record(pack(tmp_path / "bad.zip", files), keys=[OURS])
    assert not report.ok and report.problem


def test_any_changed_byte_of_the_zip_shows_or_changes_nothing(tmp_path: Path) -> None:
    path = ERASED.write(tmp_path / "record.zip")
    raw, files, good = path.read_bytes(), unpack(path), verify_record(path)
    for at in range(len(raw)):
        path.write_bytes(raw[:at] + bytes([raw[at] ^ (1 << at % 8)]) + raw[at + 1 :])
        try:
            report = verify_record(path)
        except BadRequest:
            continue
        assert (report == good and unpack(path) == files) or (not report.ok and report.problem), at


def test_zip_cut_anywhere_is_refused(tmp_path: Path) -> None:
    path = GOOD.write(tmp_path / "record.zip")
    raw = path.read_bytes()
    for size in range(len(raw)):
        path.write_bytes(raw[:size])
        try:
            assert not verify_record(path).ok, size
        except BadRequest:
            assert size < 4


def test_flipped_bit_on_disk_is_named_by_its_event(tmp_path: Path) -> None:
    """Not only by the checksum of the whole file."""
    path = sealed(2000, ended=False).write(tmp_path / "record.zip")
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    report = verify_record(path)
    assert report.first_bad is not None and 500 < report.first_bad < 1500


# Keys


def test_record_signed_by_another_key_is_found_with_a_key(tmp_path: Path) -> None:
    path = sealed(signer=FOREIGN_SIGNER).write(tmp_path / "record.zip")
    unpinned, pinned = verify_record(path), verify_record(path, keys=[OURS])
    assert (unpinned.ok, unpinned.keys, unpinned.warnings) == (True, (THEIRS,), (UNPINNED,))
    assert (pinned.ok, pinned.first_bad) == (False, 4)
    assert pinned.problem == (
        f"The checkpoint statement for event 4 is signed by {THEIRS}, not by the key you gave."
    )


@pytest.mark.parametrize("kind", ["checkpoint", "end", "receipt", "erasure"])
def test_with_a_key_every_statement_must_be_by_it(tmp_path: Path, kind: Any) -> None:
    about = {"end": 7, "erasure": 3}.get(kind, 5)
    log = replace(ERASED, signers=[SIGNER, FOREIGN_SIGNER])
    others = [each for each in log.statements if (each.kind, each.seq) != (kind, about)]
    log = log.saying(*others, sign(kind, GOOD.records[about - 1], FOREIGN_SIGNER))
    path = log.write(tmp_path / "record.zip")
    report = verify_record(path, keys=[OURS])
    assert (verify_record(path).ok, report.ok, report.first_bad) == (True, False, about)
    assert "not by the key you gave" in (report.problem or "")


def test_any_of_several_given_keys_will_do(tmp_path: Path) -> None:
    path = GOOD.write(tmp_path / "record.zip")
    assert verify_record(path, keys=[THEIRS, f" {OURS.upper()}\n"]).ok
    report = verify_record(path, keys=[THEIRS, "0" * 64])
    assert "not by one of the keys you gave" in (report.problem or "")


@pytest.mark.parametrize("key", ["", "abc", "g" * 64, OURS + "0", OURS[:-1] + "\n"])
def test_key_that_is_no_fingerprint_is_a_bad_request(tmp_path: Path, key: str) -> None:
    with pytest.raises(BadRequest, match="is not the fingerprint of a key"):
        verify_record(GOOD.write(tmp_path / "record.zip"), keys=[key])


# Receipts


def _cut(log: Sealed, seq: int) -> Sealed:
    """All after an event gone, with the statements about it."""
    statements = [each for each in log.statements if each.seq <= seq]
    return replace(log, records=log.records[:seq], statements=statements)


def test_tail_cut_at_a_checkpoint_shows_only_with_a_receipt(tmp_path: Path) -> None:
    path = _cut(GOOD, 4).write(tmp_path / "record.zip")
    assert verify_record(path, keys=[OURS]).warnings == (
        "The session has not ended: events after 4 may have been cut off. "
        "Only a receipt from later would show it.",
    )
    report = verify_record(path, receipts=[sign("receipt", GOOD.records[5])])
    assert (report.ok, report.first_bad) == (False, 5)
    assert report.problem == (
        "The record was truncated: it ends at event 4, and the receipt statement for event 6 "
        "says that there was more."
    )


def test_rewritten_record_shows_with_a_receipt(tmp_path: Path) -> None:
    records = chain([*story(2)[:3], *story(9)[6:9]])
    path = Sealed(records, [sign("checkpoint", records[-1])]).write(tmp_path / "record.zip")
    receipts = [sign("receipt", GOOD.records[n]) for n in (4, 1, 3)]
    report = verify_record(path, keys=[OURS], receipts=receipts)
    assert verify_record(path, keys=[OURS]).ok
    assert (report.ok, report.first_bad) == (False, 4)
    assert (report.problem or "").startswith(
        "The record was rewritten: a receipt says that event 4 has the hash"
    )


def test_receipts_that_agree_are_accepted(tmp_path: Path) -> None:
    path = GOOD.write(tmp_path / "record.zip")
    receipts = [sign("receipt", GOOD.records[n]) for n in (6, 2, 2, 0)]
    assert verify_record(path, keys=[OURS], receipts=receipts).ok


RECEIPTS: dict[str, tuple[Statement, str]] = {
    "another key": (sign("receipt", GOOD.records[2], FOREIGN_SIGNER), "which is not in keys.json"),
    "another session": (sign("receipt", OTHER.records[2]), f"about session {OTHER_SESSION}"),
    "changed": (replace(sign("receipt", GOOD.records[2]), seq=1), "false signature"),
    "another kind": (sign("checkpoint", GOOD.records[2]), "given as a receipt"),
}


@pytest.mark.parametrize("name", RECEIPTS)
def test_receipt_that_proves_nothing_is_refused(tmp_path: Path, name: str) -> None:
    receipt, words = RECEIPTS[name]
    report = verify_record(GOOD.write(tmp_path / "record.zip"), receipts=[receipt])
    assert (report.ok, report.first_bad) == (False, None)
    assert words in (report.problem or "")


def test_receipt_must_be_by_the_given_key(tmp_path: Path) -> None:
    path = replace(GOOD, signers=[SIGNER, FOREIGN_SIGNER]).write(tmp_path / "record.zip")
    receipt = sign("receipt", GOOD.records[2], FOREIGN_SIGNER)
    assert verify_record(path, receipts=[receipt]).ok
    report = verify_record(path, keys=[OURS], receipts=[receipt])
    assert "receipt statement for event 3 is signed by" in (report.problem or "")


def test_receipt_is_read_from_its_file(tmp_path: Path) -> None:
    path, receipt = tmp_path / "receipt.json", sign("receipt", GOOD.records[2])
    pretty = json.dumps(receipt.to_json(), indent=4).encode()
    for text in (statement_line(receipt), statement_line(receipt).strip(), pretty):
        path.write_bytes(text)
        assert read_receipt(path) == receipt


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (b"", "is not a receipt: it is not good JSON"),
        (b"[]", "a list, not an object"),
        (b"[" * 60_000, "not good JSON"),
        (b" " * 70_000, "longer than 65536 bytes"),
        (statement_line(GOOD.statements[0]), "of kind checkpoint, not a receipt"),
    ],
)
def test_malformed_receipt_is_a_bad_request(tmp_path: Path, text: bytes, words: str) -> None:
    path = tmp_path / "receipt.json"
    path.write_bytes(text)
    with pytest.raises(BadRequest, match=words):
        read_receipt(path)


@pytest.mark.parametrize("text", [None, b"", b'{"kind":"\x1b[2J"}', statement_line(GOOD.statements[0])])
def test_name_of_a_receipt_cannot_steer_the_terminal(tmp_path: Path, text: bytes | None) -> None:
    path = tmp_path / "re\x1b[2J\x9b\u202eceipt\n.json"
    if text is not None:
        path.write_bytes(text)
    with pytest.raises((NotFound, BadRequest)) as refusal:
        read_receipt(path)
    assert str(refusal.value).isprintable()


def test_missing_receipt_is_not_found(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        read_receipt(tmp_path / "receipt.json")
    with pytest.raises(BadRequest, match="cannot be read"):
        read_receipt(tmp_path)


# The specification


@pytest.mark.parametrize("case", EXPECTED["verdicts"], ids=lambda case: f"{case['file']}: {case['because']}")
def test_two_verifiers_agree_on_every_vector(case: dict[str, Any]) -> None:
    keys = [EXPECTED["key"]] if case["pinned"] else []
    receipts = [VECTORS / "receipt.json"] if case["receipt"] else []
    report = verify_record(
        VECTORS / case["file"], keys=keys, receipts=[read_receipt(each) for each in receipts]
    )
    arguments = [str(VECTORS / case["file"]), *(f"--key={key}" for key in keys)]
    other = _run(
        Path(__file__).with_name("independent_verifier.py"), *arguments, *(f"--receipt={r}" for r in receipts)
    )
    assert json.loads(other) == {"ok": report.ok, "first_bad": report.first_bad}
    assert (report.ok, report.first_bad) == (case["ok"], case["first_bad"])


def test_vectors_are_what_their_script_makes(tmp_path: Path) -> None:
    _run(ROOT / "scripts" / "record_vectors.py", str(tmp_path))
    made, kept = ({each.name: _content(each) for each in folder.iterdir()} for folder in (tmp_path, VECTORS))
    assert made == kept


def test_vectors_give_the_hashes_of_the_events() -> None:
    lines = unpack(VECTORS / "record-v1.zip")["events.ndjson"].splitlines()
    hashes = [{name: orjson.loads(line)[name] for name in ("seq", "payload_hash", "hash")} for line in lines]
    assert hashes == EXPECTED["events"]
    assert read_receipt(VECTORS / "receipt.json").message().decode() == EXPECTED["receipt_message"]


def test_verifying_needs_neither_database_nor_models() -> None:
    heavy = "{'sqlalchemy', 'pydantic', 'asyncio'}"
    script = f"import sys, hutch.store.exported_record_verifier; print({heavy} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_specification_quotes_the_readme() -> None:
    page = (ROOT / "docs" / "record.md").read_text()
    assert "".join(f"    {line}\n" for line in README.decode().splitlines()) in page


def _content(path: Path) -> object:
    """Unpacked: how well zlib packs is its own affair."""
    return unpack(path) if path.suffix == ".zip" else path.read_bytes()


def _run(script: Path, *arguments: str) -> str:
    return subprocess.run(
        [sys.executable, script, *arguments], capture_output=True, text=True, check=True
    ).stdout
