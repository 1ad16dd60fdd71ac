"""A second verifier, written from docs/record.md alone: it shares no code with Hutch.

    python independent_verifier.py RECORD [--key FINGERPRINT] [--receipt FILE]

Prints {"ok": …, "first_bad": …} as JSON. For a hostile world use `hutch verify`: this one
has no limits on size.
"""

import argparse
import base64
import hashlib
import json
import math
import re
import struct
import sys
import zlib
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

NAMES = ["README.txt", "events.ndjson", "statements.ndjson", "keys.json", "manifest.json"]
STATEMENT = ["at_ms", "hash", "key", "kind", "reason", "seq", "session", "signature"]
EVENT = ["at_ms", "hash", "payload", "payload_hash", "salt", "seq", "type"]
SHAPES = {
    **dict.fromkeys(["hash", "head", "key", "payload_hash"], r"[0-9a-f]{64}"),
    "salt": r"[0-9a-f]{32}",
    "session": r"ses_[0-7][0-9a-hjkmnp-tv-z]{25}",
    "type": r"[a-z][a-z0-9_.]{0,99}",
    "kind": r"checkpoint|end|receipt|erasure",
}


README = """\
This is the record of one Hutch session: everything that happened in it, in order.
Each event is chained to the one before by SHA-256, and the chain is signed with Ed25519.
To check it offline: hutch verify FILE --key FINGERPRINT [--receipt RECEIPT]
Get the fingerprint, and a receipt if there is one, from somebody you trust and not from this file.
The format is specified in docs/record.md of Hutch, so that anybody can write a verifier.
"""


class Bad(Exception):
    pass


def require(condition: object, seq: int | None = None) -> None:
    if not condition:
        raise Bad(seq)


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    require(len(dict(pairs)) == len(pairs))
    return dict(pairs)


def refuse(constant: str) -> None:
    raise Bad(None)


def finite(text: str) -> float:
    require(math.isfinite(float(text)))
    return float(text)


def canonical(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def parse(line: bytes, fields: list[str], seq: int | None = None) -> dict[str, Any]:
    try:
        value = json.loads(line)
        require(canonical(value) == line and sorted(value) == fields)
        for name, shape in SHAPES.items():
            erased = name == "salt" and value.get(name) is None
            require(name not in value or erased or re.fullmatch(shape, value[name]))
        for name in {"seq", "at_ms", "events"} & set(value):
            require(type(value[name]) is int and 0 <= value[name] < 2**53)
        require("at_ms" not in value or value["at_ms"] <= 253402300799999)
        return dict(value)
    except (ValueError, TypeError, AttributeError, RecursionError, Bad):
        raise Bad(seq) from None


def lines(content: bytes) -> list[bytes]:
    require(content == b"" or content.endswith(b"\n"))
    return content.split(b"\n")[:-1]


def check_signer(
    said: dict[str, Any], session: str, pinned: set[str], keys: dict[str, str], seq: int | None
) -> None:
    require(said["session"] == session and (not pinned or said["key"] in pinned) and said["key"] in keys, seq)
    body = canonical({name: said[name] for name in STATEMENT if name != "signature"})
    try:
        signature = base64.b64decode(said["signature"], validate=True)
        require(base64.b64encode(signature).decode() == said["signature"], seq)
        public_key = Ed25519PublicKey.from_public_bytes(base64.b64decode(keys[said["key"]]))
        public_key.verify(signature, b"hutch.statement.v1\n" + body)
    except (InvalidSignature, ValueError, TypeError):
        raise Bad(seq) from None


def check_payload(event: dict[str, Any], n: int) -> None:
    require((event["salt"] is None) == (event["payload"] is None), n)
    if event["payload"] is not None:
        payload = event["payload"].encode()
        require(
            hashlib.sha256(bytes.fromhex(event["salt"]) + payload).hexdigest() == event["payload_hash"], n
        )
        try:
            value = json.loads(payload, object_pairs_hook=unique, parse_constant=refuse, parse_float=finite)
            require(value["type"] == event["type"])
        except (ValueError, TypeError, KeyError, RecursionError, Bad):
            raise Bad(n) from None


def unzip(raw: bytes) -> dict[str, bytes]:
    """The files; anything but the one layout is refused. Not for records above 2 GiB."""
    files, directory, place = {}, b"", 0
    for name in NAMES:
        start = place + 30 + len(name) + 20
        require(len(raw) >= start)
        (crc,) = struct.unpack_from("<L", raw, place + 14)
        size, packed = struct.unpack_from("<2Q", raw, start - 16)
        require(max(size, packed, place) < 2**31)
        begin = struct.pack("<4s5HL", b"PK\3\4", 45, 0, 8, 0, 33, crc) + b"\xff" * 8
        begin += struct.pack("<2H", len(name), 20) + name.encode() + struct.pack("<2H2Q", 1, 16, size, packed)
        require(raw[place:start] == begin)
        unpacker = zlib.decompressobj(-15)
        try:
            files[name] = unpacker.decompress(raw[start : start + packed])
        except zlib.error:
            raise Bad(None) from None
        require(unpacker.eof and not unpacker.unused_data)
        require(len(files[name]) == size and zlib.crc32(files[name]) == crc)
        directory += struct.pack("<4s6H3L", b"PK\1\2", 813, 45, 0, 8, 0, 33, crc, packed, size)
        directory += struct.pack("<5H2L", len(name), 0, 0, 0, 0, 2175008768, place) + name.encode()
        place = start + packed
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 5, 5, len(directory), place, 0)
    require(raw[place:] == directory + end)
    return files


def verify(path: str, pinned: set[str], receipts: list[dict[str, Any]]) -> None:
    files = unzip(Path(path).read_bytes())
    require(files["README.txt"].decode("ascii", "replace") == README)
    manifest = parse(files["manifest.json"][:-1], ["events", "format", "head", "session", "version"])
    require((manifest["format"], manifest["version"]) == ("hutch-record", 1))
    keys = json.loads(files["keys.json"])
    for name, key in keys.items():
        require(hashlib.sha256(base64.b64decode(key)).hexdigest() == name)
    session, prev, at_ms, covered, n, ended = manifest["session"], "0" * 64, 0, 0, 0, False
    for receipt in receipts:
        require(receipt["kind"] == "receipt")
        check_signer(receipt, session, pinned, keys, None)
    statements = [parse(line, STATEMENT) for line in lines(files["statements.ndjson"])]
    require(statements == sorted(statements, key=lambda said: int(said["seq"])))
    for n, line in enumerate(lines(files["events.ndjson"]), 1):
        event = parse(line, EVENT, n)
        require(event["seq"] == n and not ended and event["at_ms"] >= at_ms, n)
        require(n > 1 or event["type"] == "session.opened", n)
        header = {"v": 1, "session": session, "prev": prev}
        header |= {name: event[name] for name in ("at_ms", "payload_hash", "seq", "type")}
        require(hashlib.sha256(canonical(header)).hexdigest() == event["hash"], n)
        check_payload(event, n)
        prev, at_ms, ended = event["hash"], event["at_ms"], event["type"] == "session.ended"
        about = [said for said in statements if said["seq"] == n]
        for said in about:
            check_signer(said, session, pinned, keys, n)
            if said["kind"] == "erasure":
                require(event["payload"] is None and said["hash"] == event["payload_hash"], n)
            else:
                require(said["hash"] == event["hash"] and (said["kind"] != "end" or ended), n)
                covered = n
        kinds = {said["kind"] for said in about}
        require(len(kinds) == len(about), n)
        require(event["payload"] is not None or "erasure" in kinds, n)
        require(not ended or "end" in kinds, n)
        require(all(receipt["hash"] == prev for receipt in receipts if receipt["seq"] == n), n)
    require(all(said["seq"] <= n for said in statements + receipts), n + 1)
    require(n > 0, 1)
    require(covered == n, covered + 1)
    require(manifest["events"] == n, min(manifest["events"], n) + 1)
    require(manifest["head"] == prev, n)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("record")
    parser.add_argument("--key", action="append", default=[])
    parser.add_argument("--receipt", action="append", default=[], type=argparse.FileType("rb"))
    given = parser.parse_args()
    try:
        verify(
            given.record, set(given.key), [parse(file.read().rstrip(), STATEMENT) for file in given.receipt]
        )
        verdict = {"ok": True, "first_bad": None}
    except Bad as bad:
        verdict = {"ok": False, "first_bad": bad.args[0]}
    sys.stdout.write(json.dumps(verdict))
