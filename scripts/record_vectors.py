"""Makes the test vectors of docs/record.md, always the same bytes: keys, salts and times are fixed here.

    python scripts/record_vectors.py docs/vectors

The keys below sign nothing but these examples.
"""

import asyncio
import json
import struct
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hutch.domain.ids import SessionId
from hutch.store.hash_chain import GENESIS, Record, hash_payload, link
from hutch.store.record_format import statement_line
from hutch.store.record_zip_writer import write_record
from hutch.store.signed_log_head_statements import Kind, Signer, Statement

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
OTHER_SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaej")
START_MS = 1_732_000_000_000
KEY = Ed25519PrivateKey.from_private_bytes(sha256(b"hutch test vector key").digest())
FOREIGN_KEY = Ed25519PrivateKey.from_private_bytes(sha256(b"somebody else's key").digest())

EVENTS: list[dict[str, Any]] = [
    {"type": "session.opened", "v": 1, "owner": "ada", "purpose": "test vectors"},
    {"type": "message.sent", "v": 1, "author": "user", "text": 'Grüße, "世界" 🐇\n\tand a \\ \u007f \u001b'},
    {"type": "message.sent", "v": 1, "author": "user", "text": "my telephone number is 555 0100"},
    {
        "type": "tool.called",
        "v": 1,
        "call_id": "c1",
        "arguments": {"cpu_s": 0.25, "argv": ["true"], "cwd": None},
    },
    {"type": "message.sent", "v": 1, "author": "agent", "text": "Done."},
    {"type": "session.ended", "v": 1, "outcome": "done", "reason": ""},
]


@dataclass(frozen=True)
class Bundle:
    records: Sequence[Record]
    statements: Sequence[Statement]
    keys: Sequence[Ed25519PrivateKey] = (KEY,)
    spoil: Callable[[bytes], bytes] = lambda raw: raw


@dataclass(frozen=True)
class Vector:
    name: str
    bundle: Bundle
    says: str
    first_bad: int | None = None
    pinned: bool = True
    receipt: bool = False


def two_ends(raw: bytes) -> bytes:
    """The zip with both a 64-bit end and a classic one: programs differ in which they read."""
    start = raw.index(b"PK\1\2")
    length = len(raw) - 22 - start
    wide = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 5, 5, length, start)
    wide += struct.pack("<4sLQL", b"PK\6\7", 0, len(raw) - 22, 1)
    return raw[:-22] + wide + raw[-22:]


def record(
    seq: int, event: dict[str, Any], prev: str, session_id: SessionId = SESSION, payload: bytes = b""
) -> Record:
    payload = payload or orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    salt, at_ms = sha256(f"salt {seq}".encode()).digest()[:16], START_MS + 1500 * seq
    payload_hash = hash_payload(salt, payload)
    hash_ = link(session_id, seq, at_ms, event["type"], payload_hash, prev)
    return Record(session_id, seq, at_ms, event["type"], salt, payload, payload_hash, hash_)


def chain(events: Sequence[dict[str, Any]], session_id: SessionId = SESSION) -> list[Record]:
    records: list[Record] = []
    for seq, event in enumerate(events, 1):
        records.append(record(seq, event, records[-1].hash if records else GENESIS, session_id))
    return records


def sign(kind: Kind, about: Record, reason: str = "", key: Ed25519PrivateKey = KEY) -> Statement:
    hash_ = about.payload_hash if kind == "erasure" else about.hash
    return Signer(key).sign(kind, about.session_id, about.seq, hash_, reason, at_ms=about.at_ms + 40)


def erased(records: Sequence[Record], seq: int) -> list[Record]:
    return [replace(each, salt=None, payload=None) if each.seq == seq else each for each in records]


def vectors() -> list[Vector]:
    whole = chain(EVENTS)
    records = erased(whole, 3)
    erasure = sign("erasure", whole[2], 'asked for by "ada"')
    statements = [sign("checkpoint", whole[3]), erasure, sign("end", whole[5])]
    good = Bundle(records, statements)

    rewritten = chain([*EVENTS[:4], EVENTS[4] | {"text": "Not done."}, EVENTS[5]])
    changed = replace(
        records[1], payload=records[1].payload.replace(b"and", b"xnd") if records[1].payload else None
    )
    foreign = Bundle(
        erased(rewritten, 3),
        [
            sign("checkpoint", rewritten[3], key=FOREIGN_KEY),
            sign("erasure", rewritten[2], "asked for", key=FOREIGN_KEY),
            sign("end", rewritten[5], key=FOREIGN_KEY),
        ],
        [FOREIGN_KEY],
    )
    other = chain(EVENTS, OTHER_SESSION)
    cut = Bundle(records[:4], statements[:2])
    twice = record(2, EVENTS[1], whole[0].hash, payload=b'{"type":"message.sent","a":[{"b":1,"b":2}]}')
    repeated = Bundle([whole[0], twice], [sign("checkpoint", twice)])
    return [
        Vector("record-v1", good, "whole, ended, one payload erased"),
        Vector("open", cut, "whole, not ended: a cut tail does not show"),
        Vector("open", cut, "truncated: the receipt is for event 5", 5, receipt=True),
        Vector("record-v1", good, "whole, and the receipt agrees", receipt=True),
        Vector(
            "payload-changed", replace(good, records=[records[0], changed, *records[2:]]), "payload hash", 2
        ),
        Vector("event-missing", replace(good, records=[records[0], *records[2:]]), "seq", 2),
        Vector(
            "event-retimed",
            replace(good, records=[*records[:3], replace(records[3], at_ms=0), *records[4:]]),
            "time",
            4,
        ),
        Vector(
            "event-spliced",
            replace(good, records=[*records[:4], replace(other[4], session_id=SESSION), records[5]]),
            "link",
            5,
        ),
        Vector("chain-remade", replace(good, records=erased(rewritten, 3)), "end statement", 6),
        Vector("tail-cut", replace(good, records=records[:4]), "statement beyond the end", 5),
        Vector("tail-unsigned", Bundle(records[:5], statements[:2]), "no statement covers event 5", 5),
        Vector(
            "end-unsigned",
            Bundle(records, [*statements[:2], sign("checkpoint", records[5])]),
            "end statement missing",
            6,
        ),
        Vector("payload-missing", Bundle(records, [statements[0], statements[2]]), "no erasure statement", 3),
        Vector("erased-but-there", Bundle(whole, statements), "erasure of a payload that is there", 3),
        Vector(
            "statement-replayed",
            Bundle(records, [*statements, sign("checkpoint", other[1])]),
            "other session",
            2,
        ),
        Vector(
            "statement-forged",
            Bundle(records, [*statements[:2], replace(statements[2], at_ms=START_MS)]),
            "signature",
            6,
        ),
        Vector("statement-repeated", Bundle(records, [*statements, statements[0]]), "two checkpoints", 4),
        Vector("name-repeated", repeated, "a name is repeated in the payload", 2),
        Vector("two-ends", replace(good, spoil=two_ends), "the zip has two ends"),
        Vector("local-header", replace(good, spoil=lambda raw: raw[:14] + bytes(4) + raw[18:]), "checksum"),
        Vector(
            "foreign-key",
            foreign,
            "whole, but signed by another key: only a pinned key shows it",
            pinned=False,
        ),
        Vector("foreign-key", foreign, "not the pinned key", 3),
    ]


async def stream(records: Sequence[Record]) -> AsyncIterator[Record]:
    for each in records:
        yield each


async def write(folder: Path) -> None:
    all_vectors = vectors()
    for name, bundle in {vector.name: vector.bundle for vector in all_vectors}.items():
        signers = [Signer(key) for key in bundle.keys]
        await write_record(
            folder / f"{name}.zip",
            session_id=SESSION,
            records=stream(bundle.records),
            statements=bundle.statements,
            public_keys={signer.fingerprint: signer.public_key for signer in signers},
            overwrite=True,
        )
        path = folder / f"{name}.zip"
        path.write_bytes(bundle.spoil(path.read_bytes()))
        path.chmod(0o644)
    whole = chain(EVENTS)
    receipt = sign("receipt", whole[4])
    (folder / "receipt.json").write_bytes(statement_line(receipt))
    expected = {
        "key": Signer(KEY).fingerprint,
        "session": SESSION,
        "events": [{"seq": each.seq, "payload_hash": each.payload_hash, "hash": each.hash} for each in whole],
        "receipt_message": receipt.message().decode(),
        "verdicts": [
            {
                "file": f"{vector.name}.zip",
                "pinned": vector.pinned,
                "receipt": vector.receipt,
                "ok": vector.says.startswith("whole"),
                "first_bad": vector.first_bad,
                "because": vector.says,
            }
            for vector in all_vectors
        ],
    }
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n")


if __name__ == "__main__":
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    asyncio.run(write(target))
