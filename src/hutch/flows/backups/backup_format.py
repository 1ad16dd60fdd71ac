"""The entries that describe a backup: the first, the lists of files and logs, and the last.

A backup is written as a stream, so the hashes of its files are known only at its end. The first
entry says which Hutch can restore it, before anything is unpacked. The last one proves that
nothing is missing.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, fields
from hashlib import sha256
from typing import Any, Self, get_origin

from hutch.flows.backups.tar_entries import BadBackup, Entry, entry_header
from hutch.store.database_copy import LogHead
from hutch.system.lazy_dataclass import dataclass

FORMAT, VERSION = "hutch-backup", 1
ABOUT, LOGS, FILES, MANIFEST = b"hutch-backup.json", b"logs.ndjson", b"files.ndjson", b"manifest.json"
DATA, SETTINGS = b"data", b"config"  # the two directories in a backup
MAX_JSON_BYTES = 4 << 20
MAX_LINE_BYTES = 4 << 20
MAX_NAMED = 100  # omitted and changed files that are named

DATABASE = b"data/hutch.db"
BLOBS = b"data/blobs"
KEYS = b"data/keys"
VAULT_KEYS = b"data/keys/vault.keys"
NOT_COPIED = frozenset(  # made anew, copied separately, or only for this machine
    b"data/" + name
    for name in (
        *(b"hutch.db", b"hutch.db-wal", b"hutch.db-shm", b"hutch.db.damaged", b"blobs", b"backups"),
        *(b"server.json", b"server.lock", b"migration.lock", b"locks", b"empty", b"keys/local.token"),
    )
)
_TEMPORARY = re.compile(rb"data/(workspaces|bases|repositories|layers)/\.[^/]+|data/workspaces/[^/]+/work")
# Whatever a jail may have made lies below these directories. Links are copied and restored only there.
_TREES = re.compile(rb"data/(workspaces/[^/]+/(tree|upper)|(bases|layers)/[^/]+/tree)/.")
_SHARED = re.compile(rb"data/(workspaces|bases|layers|repositories|places)/.")
_PACKS = re.compile(rb"data/((workspaces|places)/[^/]+/snapshots\.git|repositories/[^/]+)/objects/pack")
_BLOB = re.compile(rb"data/blobs/[0-9a-f]{2}/([0-9a-f]{64})")


def is_copied(path: bytes) -> bool:
    """True if a backup contains this path of the data directory."""
    return path not in NOT_COPIED and not _TEMPORARY.fullmatch(path)


def may_be_special(path: bytes) -> bool:
    """True where links, pipes and the marks of overlayfs may be: in the trees of workspaces."""
    return _TREES.match(path) is not None


def may_be_hard_link(path: bytes) -> bool:
    """True where files may share their content: never for keys, settings and the database."""
    return _SHARED.match(path) is not None


def holds_packs(path: bytes) -> bool:
    """True for a directory of packs that Hutch replaces while a server runs."""
    return _PACKS.fullmatch(path) is not None


def blob_name(path: bytes) -> str:
    """The name of a blob, which is the hash of its content; empty for other files."""
    found = _BLOB.fullmatch(path)
    return found[1].decode() if found else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The first entry."""

    hutch: str  # the version that made the backup
    schema: str  # the revision of the database
    created_ms: int  # the moment that the backup shows
    uid: int  # of the user of the installation
    keys: bool  # the keys are included

    def to_json(self) -> bytes:
        return _json({"format": FORMAT, "version": VERSION, **asdict(self)})

    @classmethod
    def parse(cls, text: bytes) -> Self:
        found = _object(text, ABOUT)
        if found.get("format") != FORMAT:
            raise BadBackup("The file is not a backup of Hutch: its first entry says something else.")
        if found.get("version") != VERSION:
            raise BadBackup(
                f"The backup has format {found.get('version')!r}, and this Hutch reads format {VERSION}. "
                f"Restore it with the Hutch that made it: {str(found.get('hutch'))[:40]!r}"
            )
        return cls(**_typed(found, cls, ABOUT))


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The last entry."""

    files: int  # entries in the list of files, directories and links included
    content_bytes: int
    logs: int
    events: int
    unfinished_runs: int
    omitted: int  # entries that could not be copied
    changed: int  # files that changed while they were read
    named: dict[str, str]  # some of these, and why
    files_sha256: str  # of files.ndjson
    logs_sha256: str  # of logs.ndjson

    def to_json(self, about: About) -> bytes:
        return _json({"format": FORMAT, "version": VERSION, **asdict(about), **asdict(self)})

    @classmethod
    def parse(cls, text: bytes) -> Self:
        return cls(**_typed(_object(text, MANIFEST), cls, MANIFEST))


def file_line(entry: Entry, sha256_of_content: str) -> bytes:
    """The line of an entry in the list of files. `header` covers its mode, times, owner and target."""
    return _json(
        {
            "path": entry.path.decode("utf-8", "surrogateescape"),
            "kind": entry.kind,
            "size": entry.size,
            "sha256": sha256_of_content,
            "header": sha256(entry_header(entry)).hexdigest(),
        }
    )


def path_in(line: bytes) -> str:
    """The path in a line of the list of files; empty if it has none."""
    try:
        return str(json.loads(line)["path"])
    except (ValueError, KeyError, TypeError):
        return ""


def log_line(head: LogHead) -> bytes:
    """The line of a log in the list of logs."""
    return _json(head._asdict())


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode() + b"\n"


def _object(text: bytes, name: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise BadBackup(f"{name.decode()} in the backup is damaged.")
    return found


def _typed(found: Mapping[str, Any], cls: type, name: bytes) -> dict[str, Any]:
    """The fields of a class, each with its type."""
    for each in fields(cls):
        if type(found.get(each.name)) is not (get_origin(each.type) or each.type):
            raise BadBackup(f"{name.decode()} in the backup has no proper {each.name!r}.")
    return {each.name: found[each.name] for each in fields(cls)}
