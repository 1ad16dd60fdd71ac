"""The hash chain, which makes changes to a log detectable.

Each payload is hashed with its own salt, so that it can be erased later and its hash
reveals nothing. The link of an event is the hash of a small header: session,
position, time, type, payload hash and the previous link. Pure functions;
`docs/record.md` is the specification.
"""

import os
from hashlib import sha256

from hutch.domain.ids import SessionId
from hutch.system.lazy_dataclass import dataclass

GENESIS = "0" * 64
SALT_BYTES = 16


@dataclass(frozen=True, slots=True)
class Record:
    """One row of a log as it is stored and exported. `payload` is None when erased."""

    session_id: SessionId
    seq: int
    at_ms: int
    type: str
    salt: bytes | None
    payload: bytes | None
    payload_hash: str
    hash: str


def new_salts(count: int) -> list[bytes]:
    """Several salts with one call to the kernel."""
    pool = os.urandom(SALT_BYTES * count)
    return [pool[start : start + SALT_BYTES] for start in range(0, len(pool), SALT_BYTES)]


def hash_payload(salt: bytes, payload: bytes) -> str:
    return sha256(salt + payload).hexdigest()


def link(session_id: str, seq: int, at_ms: int, type_: str, payload_hash: str, prev: str) -> str:
    """The hash of one event's header. No field can hold a character that JSON would escape."""
    header = (
        f'{{"at_ms":{at_ms},"payload_hash":"{payload_hash}","prev":"{prev}",'
        f'"seq":{seq},"session":"{session_id}","type":"{type_}","v":1}}'
    )
    return sha256(header.encode()).hexdigest()
