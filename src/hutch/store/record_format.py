"""The exported form of a log: its files and lines, written and read back.

Readers do not trust a record, so nothing is used before its type, range and
characters are checked. Every line is canonical JSON: there is one way to write it,
and repeated names or extra spaces are refused. `docs/record.md` is
the specification.
"""

import base64
import binascii
import re
from collections.abc import Collection, Mapping
from typing import Any, get_args

import orjson

from hutch.domain.errors import BadRequest
from hutch.domain.ids import SessionId, parse_session_id
from hutch.store.hash_chain import SALT_BYTES, Record
from hutch.store.signed_log_head_statements import Kind, Statement, fingerprint
from hutch.system.lazy_dataclass import dataclass

FORMAT = "hutch-record"
VERSION = 1
FILES = ("README.txt", "events.ndjson", "statements.ndjson", "keys.json", "manifest.json")
README = b"""\
This is the record of one Hutch session: everything that happened in it, in order.
Each event is chained to the one before by SHA-256, and the chain is signed with Ed25519.
To check it offline: hutch verify FILE --key FINGERPRINT [--receipt RECEIPT]
Get the fingerprint, and a receipt if there is one, from somebody you trust and not from this file.
The format is specified in docs/record.md of Hutch, so that anybody can write a verifier.
"""

MAX_INT = 2**53 - 1  # the range that all JSON readers support
MAX_MS = 253_402_300_799_999  # the end of the year 9999
MAX_PAYLOAD_BYTES = 16 * 1024**2
STATEMENT_LIMIT_BYTES = 64 * 1024
MAX_PAYLOAD_VALUES = 1_000_000  # including names; a short text of brackets becomes large when parsed
EVENT_TYPE = re.compile(r"[a-z][a-z0-9_.]{0,99}")

_EVENT = ("at_ms", "hash", "payload", "payload_hash", "salt", "seq", "type")
_STATEMENT = ("at_ms", "hash", "key", "kind", "reason", "seq", "session", "signature")
_MANIFEST = ("events", "format", "head", "session", "version")
_HEX = re.compile(r"[0-9a-f]*")
_STRING = re.compile(rb'"[^"]*+"?')


class InvalidRecord(Exception):
    """Describes what is wrong with a record; `seq` is the invalid event, if there is one."""

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


@dataclass(frozen=True, slots=True)
class Manifest:
    """The summary of a record. It is not signed, so it must agree with the signed parts."""

    session_id: SessionId
    events: int
    head: str


def event_line(record: Record) -> bytes:
    """One event; its payload as a string, so that it need not be serialised again to be hashed."""
    return _line(
        {
            "at_ms": record.at_ms,
            "hash": record.hash,
            "payload": None if record.payload is None else record.payload.decode(),
            "payload_hash": record.payload_hash,
            "salt": None if record.salt is None else record.salt.hex(),
            "seq": record.seq,
            "type": record.type,
        }
    )


def statement_line(statement: Statement) -> bytes:
    return _line(statement.to_json())


def keys_line(public_keys: Mapping[str, bytes]) -> bytes:
    return _line({name: base64.b64encode(raw).decode() for name, raw in public_keys.items()})


def manifest_line(manifest: Manifest) -> bytes:
    return _line(
        {
            "events": manifest.events,
            "format": FORMAT,
            "head": manifest.head,
            "session": manifest.session_id,
            "version": VERSION,
        }
    )


def parse_event(line: bytes, session_id: SessionId) -> Record:
    fields = _object(line, _EVENT)
    payload, salt = fields["payload"], fields["salt"]
    if payload is not None and not isinstance(payload, str):
        raise InvalidRecord(f"its payload is {_show(payload)}, not a string")
    return Record(
        session_id=session_id,
        seq=_whole(fields, "seq", 1, MAX_INT),
        at_ms=_whole(fields, "at_ms", 0, MAX_MS),
        type=check_type(fields["type"]),
        salt=None if salt is None else bytes.fromhex(_hex(fields, "salt", SALT_BYTES)),
        payload=None if payload is None else payload.encode(),
        payload_hash=_hex(fields, "payload_hash", 32),
        hash=_hex(fields, "hash", 32),
    )


def parse_statement(line: bytes) -> Statement:
    fields = _object(line, _STATEMENT)
    reason = fields["reason"]
    if fields["kind"] not in get_args(Kind):
        raise InvalidRecord(f"its kind is {_show(fields['kind'])}, not one of {', '.join(get_args(Kind))}")
    if not isinstance(reason, str):
        raise InvalidRecord(f"its reason is {_show(reason)}, not a string")
    return Statement(
        kind=fields["kind"],
        session_id=_session(fields["session"]),
        seq=_whole(fields, "seq", 1, MAX_INT),
        hash=_hex(fields, "hash", 32),
        at_ms=_whole(fields, "at_ms", 0, MAX_MS),
        reason=reason,
        key=_hex(fields, "key", 32),
        signature=_base64(fields["signature"], 64, "its signature"),
    )


def parse_keys(line: bytes) -> dict[str, bytes]:
    """Public keys by fingerprint. A key under another name is refused."""
    keys = {}
    for name, text in _object(line, None).items():
        raw = _base64(text, 32, f"the key {_show(name)}")
        if name != fingerprint(raw):
            raise InvalidRecord(f"the key named {_show(name)} has the fingerprint {fingerprint(raw)}")
        keys[name] = raw
    return keys


def parse_manifest(line: bytes) -> Manifest:
    fields = _object(line, None)
    if fields.get("format") != FORMAT:
        raise InvalidRecord(f"its format is {_show(fields.get('format'))}, not '{FORMAT}'")
    if fields.get("version") is True or fields.get("version") != VERSION:
        version = _show(fields.get("version"))
        raise InvalidRecord(
            f"its version is {version}, and this Hutch reads version {VERSION}: try a newer one"
        )
    _expect(fields, _MANIFEST)
    return Manifest(
        session_id=_session(fields["session"]),
        events=_whole(fields, "events", 0, MAX_INT),
        head=_hex(fields, "head", 32),
    )


def check_type(value: object) -> str:
    """Refuse invalid event types: the type is part of the hashed header without escaping."""
    if not isinstance(value, str) or not EVENT_TYPE.fullmatch(value):
        raise InvalidRecord(f"its type is {_show(value)}; one looks like 'session.opened'")
    return value


def check_payload(payload: bytes, type_: str) -> None:
    """Refuse a payload that is ambiguous, too expensive to parse, or of another type."""
    if len(payload) > MAX_PAYLOAD_VALUES:  # a shorter one exceeds neither limit
        _check_size(payload)
    try:
        event = orjson.loads(payload)
        again = orjson.dumps(event, option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError, RecursionError) as error:
        raise InvalidRecord(f"its payload is not good JSON ({str(error)[:100]})") from None
    if not isinstance(event, dict):
        raise InvalidRecord(f"its payload is {_show(event)}, not an object")
    if event.get("type") != type_:
        raise InvalidRecord(
            f"its payload is of type {_show(event.get('type'))}, but it is filed as '{type_}'"
        )
    if again != payload:  # allowed; but of a repeated name only the last value was read
        del event
        if _structure(again).count(b":") != _structure(payload).count(b":"):
            raise InvalidRecord("a name is repeated in its payload")


def _check_size(payload: bytes) -> None:
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidRecord(f"its payload is {len(payload)} bytes, over the limit of {MAX_PAYLOAD_BYTES}")
    if sum(map(_structure(payload).count, (b",", b":", b"[", b"{"))) > MAX_PAYLOAD_VALUES:
        raise _too_many_values()


def _structure(text: bytes) -> bytes:
    """JSON without its strings: the rest has one colon for each name."""
    plain = text.replace(rb"\\", b"").replace(rb"\"", b"")
    if plain.count(b'"') > 2 * MAX_PAYLOAD_VALUES:  # each part between them takes memory
        raise _too_many_values()
    return _STRING.sub(b"", plain)


def _too_many_values() -> InvalidRecord:
    return InvalidRecord(f"its payload holds more than {MAX_PAYLOAD_VALUES} names and values")


def _line(fields: Mapping[str, Any]) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_SORT_KEYS | orjson.OPT_APPEND_NEWLINE)


def recanonical(text: bytes) -> bytes:
    """Any JSON as one canonical line."""
    try:
        return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
    except (ValueError, TypeError) as error:
        raise InvalidRecord(f"it is not good JSON ({str(error)[:100]})") from None


def _object(line: bytes, names: Collection[str] | None) -> dict[str, Any]:
    """The object in a canonical line, with exactly these names."""
    try:
        fields = orjson.loads(line)
        canonical = orjson.dumps(fields, option=orjson.OPT_SORT_KEYS) == line
    except (ValueError, TypeError) as error:  # TypeError: parsed, but nested too deep to be written
        raise InvalidRecord(f"it is not good JSON ({str(error)[:100]})") from None
    if not isinstance(fields, dict):
        raise InvalidRecord(f"it is {_show(fields)}, not an object")
    if names is not None:
        _expect(fields, names)
    if not canonical:
        raise InvalidRecord(
            "it is not canonical JSON: names sorted and not repeated, no spaces, shortest escapes"
        )
    return fields


def _expect(fields: Mapping[str, Any], names: Collection[str]) -> None:
    if wrong := sorted(fields.keys() ^ set(names)):
        which = "lacks" if wrong[0] in names else "has an unknown"
        raise InvalidRecord(f"it {which} {_show(wrong[0])}")


def _whole(fields: Mapping[str, Any], name: str, minimum: int, maximum: int) -> int:
    value = fields[name]
    if type(value) is not int or not minimum <= value <= maximum:  # a bool is an int in Python
        raise InvalidRecord(f"its {name} is {_show(value)}, not a whole number from {minimum} to {maximum}")
    return value


def _hex(fields: Mapping[str, Any], name: str, size_bytes: int) -> str:
    value = fields[name]
    if not isinstance(value, str) or len(value) != 2 * size_bytes or not _HEX.fullmatch(value):
        raise InvalidRecord(f"its {name} is {_show(value)}, not {2 * size_bytes} lower-case hex digits")
    return value


def _session(value: object) -> SessionId:
    try:
        return parse_session_id(value if isinstance(value, str) else repr(value))
    except BadRequest:
        raise InvalidRecord(f"its session is {_show(value)}, which is not a session id") from None


def _base64(value: object, size_bytes: int, what: str) -> bytes:
    try:
        raw = base64.b64decode(value, validate=True) if isinstance(value, str) else b""
    except (binascii.Error, ValueError):
        raw = b""
    # Encode again, because the last character has unused bits.
    if len(raw) != size_bytes or base64.b64encode(raw).decode() != value:
        raise InvalidRecord(f"{what} is {_show(value)}, not {size_bytes} bytes in base64")
    return raw


def _show(value: object) -> str:
    """An untrusted value for a message: short, on one line, and ASCII."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
