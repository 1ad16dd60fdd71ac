"""Signed statements about a log: checkpoints, its end, receipts, erasures.

A statement says that at some moment the log of a session had a certain head.
It is a flat JSON object, signed with the installation's Ed25519 key.
"""

import base64
import os
import shlex
import stat
import tempfile
from contextlib import suppress
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

import orjson
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from hutch.domain.errors import Unavailable
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

Kind = Literal["checkpoint", "end", "receipt", "erasure"]
CONTEXT = b"hutch.statement.v1\n"


@dataclass(frozen=True, slots=True)
class Statement:
    """A signed statement, with its key and signature."""

    kind: Kind
    session_id: str
    seq: int
    hash: str
    at_ms: int
    reason: str
    key: str
    signature: bytes

    def message(self) -> bytes:
        """The exact bytes that are signed."""
        body = {
            "at_ms": self.at_ms,
            "hash": self.hash,
            "key": self.key,
            "kind": self.kind,
            "reason": self.reason,
            "seq": self.seq,
            "session": self.session_id,
        }
        return CONTEXT + orjson.dumps(body, option=orjson.OPT_SORT_KEYS)

    def to_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "session": self.session_id,
            "seq": self.seq,
            "hash": self.hash,
            "at_ms": self.at_ms,
            "reason": self.reason,
            "key": self.key,
            "signature": base64.b64encode(self.signature).decode(),
        }


def fingerprint(public_key: bytes) -> str:
    """The SHA-256 of the 32 raw bytes of a key, in hex."""
    return sha256(public_key).hexdigest()


def is_signed_by(statement: Statement, public_key: bytes) -> bool:
    """True if this key signed the statement."""
    if statement.key != fingerprint(public_key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(statement.signature, statement.message())
    except (InvalidSignature, ValueError):
        return False
    return True


class Signer:
    """The installation's signing key."""

    def __init__(self, private_key: Ed25519PrivateKey, *, is_new: bool = False) -> None:
        self._private_key = private_key
        self.is_new = is_new  # it was created just now
        self.public_key = private_key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        self.fingerprint = fingerprint(self.public_key)

    @classmethod
    def open(cls, path: Path) -> "Signer":
        """Load the key at `path`, or create one that only its owner can read."""
        is_new = False
        try:
            try:
                pem = _read(path)
            except FileNotFoundError:
                is_new = True
                _create(path)
                pem = _read(path)  # of concurrent processes, all use the key that was linked first
        except OSError as error:
            raise Unavailable(f"The signing key {path} cannot be read or made: {error.strerror}.") from None
        try:
            key = load_pem_private_key(pem, password=None)
        except ValueError as error:
            raise Unavailable(
                f"The signing key {path} is damaged ({error}). Restore it from a backup, or move it "
                "away to sign with a new key; records signed so far stay valid under the old one."
            ) from None
        if not isinstance(key, Ed25519PrivateKey):
            raise Unavailable(f"The signing key {path} is not an Ed25519 key. Move it away to get a new one.")
        return cls(key, is_new=is_new)

    def sign(
        self,
        kind: Kind,
        session_id: str,
        seq: int,
        hash_: str,
        reason: str = "",
        *,
        at_ms: int | None = None,
    ) -> Statement:
        """A signed statement, by default with the current time."""
        unsigned = Statement(
            kind=kind,
            session_id=session_id,
            seq=seq,
            hash=hash_,
            at_ms=wall_ms() if at_ms is None else at_ms,
            reason=reason,
            key=self.fingerprint,
            signature=b"",
        )
        return replace(unsigned, signature=self._private_key.sign(unsigned.message()))


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
        if mode & 0o077:
            raise Unavailable(
                f"The signing key {path} is open to other users (mode {mode:04o}). Close it: "
                f"chmod 600 {shlex.quote(str(path))}"
            )
        return file.read()


def _create(path: Path) -> None:
    """Write a new key, sync it and link it to `path`; an existing key stays."""
    pem = Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A unique name with mode 0600. Not the pid: containers on one volume may have the same pid.
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    draft = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(pem)
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            path.hardlink_to(draft)
    finally:
        draft.unlink()
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
