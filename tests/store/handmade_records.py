"""Records made by hand, and ways to damage them."""

import asyncio
import zipfile
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from hutch.domain.ids import SessionId
from hutch.store.hash_chain import GENESIS, Record, hash_payload, link
from hutch.store.record_zip_reader import ZipMember, directory, header
from hutch.store.record_zip_writer import write_record
from hutch.store.signed_log_head_statements import Kind, Signer, Statement

SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaeh")
OTHER_SESSION = SessionId("ses_01jd2m4c9k7w6t0q8n5x3vbaej")
SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(sha256(b"ours").digest()))
FOREIGN_SIGNER = Signer(Ed25519PrivateKey.from_private_bytes(sha256(b"theirs").digest()))
START_MS = 1_732_000_000_000


@dataclass(frozen=True)
class Sealed:
    """A record in memory: change what you like, then write it."""

    records: Sequence[Record]
    statements: Sequence[Statement]
    signers: Sequence[Signer] = (SIGNER,)
    session_id: SessionId = SESSION

    def write(self, path: Path) -> Path:
        asyncio.run(
            write_record(
                path,
                session_id=self.session_id,
                records=stream(self.records),
                statements=self.statements,
                public_keys={signer.fingerprint: signer.public_key for signer in self.signers},
                overwrite=True,
            )
        )
        return path

    def at(self, seq: int, **changes: Any) -> "Sealed":
        """The same with one event changed and the chain left as it was."""
        records = [replace(each, **changes) if each.seq == seq else each for each in self.records]
        return replace(self, records=records)

    def without(self, seq: int) -> "Sealed":
        return replace(self, records=[each for each in self.records if each.seq != seq])

    def saying(self, *statements: Statement) -> "Sealed":
        return replace(self, statements=statements)


def story(texts: int, *, ended: bool = True) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = [{"type": "session.opened", "v": 1, "owner": "ada", "purpose": ""}]
    events += [{"type": "message.sent", "v": 1, "author": "user", "text": f"Nº {n}\n"} for n in range(texts)]
    if ended:
        events.append({"type": "session.ended", "v": 1, "outcome": "done", "reason": ""})
    return events


def chain(payloads: Sequence[dict[str, Any] | bytes], session_id: SessionId = SESSION) -> list[Record]:
    """A good chain over these payloads, whatever they are; bytes are of type message.sent."""
    records: list[Record] = []
    prev = GENESIS
    for seq, event in enumerate(payloads, 1):
        type_ = "message.sent" if isinstance(event, bytes) else event["type"]
        payload = event if isinstance(event, bytes) else orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
        salt, at_ms = sha256(f"salt {seq}".encode()).digest()[:16], START_MS + seq
        payload_hash = hash_payload(salt, payload)
        prev = link(session_id, seq, at_ms, type_, payload_hash, prev)
        records.append(Record(session_id, seq, at_ms, type_, salt, payload, payload_hash, prev))
    return records


def sign(kind: Kind, about: Record, signer: Signer = SIGNER) -> Statement:
    hash_ = about.payload_hash if kind == "erasure" else about.hash
    return signer.sign(kind, about.session_id, about.seq, hash_)


def sealed(
    texts: int = 5, *, ended: bool = True, signer: Signer = SIGNER, session_id: SessionId = SESSION
) -> Sealed:
    """A good record: a checkpoint at event 4, and the head signed."""
    records = chain(story(texts, ended=ended), session_id)
    statements = [
        sign("checkpoint", records[3], signer),
        sign("end" if ended else "checkpoint", records[-1], signer),
    ]
    return Sealed(records, statements, [signer], session_id)


async def stream(records: Sequence[Record]) -> AsyncIterator[Record]:
    for each in records:
        yield each


def unpack(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {info.filename: archive.read(info) for info in archive.infolist()}


def pack(path: Path, files: Mapping[str, bytes] | Sequence[tuple[str, bytes]]) -> Path:
    """A zip laid out as Hutch does it, of whatever files."""
    listed = list(files.items() if isinstance(files, Mapping) else files)
    path.write_bytes(laid_out([(name, deflated(content), content) for name, content in listed]))
    return path


def deflated(content: bytes) -> bytes:
    packer = zlib.compressobj(9, wbits=-15)
    return packer.compress(content) + packer.flush()


def laid_out(files: Sequence[tuple[str, bytes, bytes]], checksum: int | None = None) -> bytes:
    """A zip of names, data already packed, and the content that is declared, whatever the data is."""
    body, packed = b"", []
    for name, data, content in files:
        crc = zlib.crc32(content) if checksum is None else checksum
        packed.append(ZipMember(name, len(body), len(data), len(content), crc))
        body += header(packed[-1]) + data
    return body + directory(packed)
