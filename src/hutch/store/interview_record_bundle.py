"""The record of an interview in one file: the records of its room and of all its workspaces.

The room's log has an event `interview.sealed` with the last number and hash of every workspace's log. So the
signed record of the room commits to the others: one that was left out, replaced or shortened is noticed.
"""

import shutil
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson

from hutch.domain.errors import BadRequest
from hutch.domain.ids import SessionId, is_id
from hutch.store.exported_record_verifier import (
    LINE_LIMIT_BYTES,
    MANIFEST_LIMIT_BYTES,
    SIZE_LIMIT_BYTES,
    Report,
    verify_record,
)
from hutch.store.record_format import parse_event, parse_manifest
from hutch.store.record_zip_reader import open_archive
from hutch.store.signed_log_head_statements import Statement
from hutch.system.lazy_dataclass import dataclass

FORMAT = "hutch-interview-1"
MANIFEST = "interview.json"
README_NAME = "README.txt"
README = (
    b"The record of an interview. interview.json names its parts; records/ has one record for the room\n"
    b"and one for each workspace. Verify all of them, and that they belong together: hutch verify FILE\n"
)
LABELS = ("number", "question", "language")  # of a workspace in the manifest
READ_EVENTS = (b"interview.sealed", b"question.opened", b"language.switched")
MAX_RECORDS = 200
MAX_MANIFEST_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BundleReport:
    """The result of a verification."""

    ok: bool
    interview: str
    problem: str | None
    sealed: bool  # the room commits to all workspaces
    records: tuple[Report, ...]
    warnings: tuple[str, ...] = ()


def write_bundle(
    path: Path,
    interview: str,
    records: Mapping[str, Path],
    details: Mapping[str, Mapping[str, Any]],
    withheld: Sequence[str] = (),
) -> None:
    """Write records, by session, into one file. `withheld` are sessions that its reader may not see. Blocks
    the thread."""
    manifest = {
        "format": FORMAT,
        "interview": interview,
        "records": [
            {"session": session, "file": f"records/{session}.zip", **details.get(session, {})}
            for session in records
        ],
        "withheld": list(withheld),
    }
    with zipfile.ZipFile(path, "x", zipfile.ZIP_STORED) as bundle:
        bundle.writestr(_entry(README_NAME), README)
        bundle.writestr(_entry(MANIFEST), orjson.dumps(manifest, option=orjson.OPT_INDENT_2))
        for session, record in records.items():
            with bundle.open(_entry(f"records/{session}.zip"), "w") as target, record.open("rb") as source:
                shutil.copyfileobj(source, target)


def _entry(name: str) -> zipfile.ZipInfo:
    return zipfile.ZipInfo(name)  # with a fixed time: the same records give the same bytes


def is_bundle(path: Path) -> bool:
    """True for the record of an interview, false for that of a session or anything else. Blocks."""
    try:
        with zipfile.ZipFile(path) as bundle:
            return MANIFEST in bundle.namelist()
    except (OSError, zipfile.BadZipFile, ValueError):
        return False


def verify_bundle(
    path: Path, *, keys: Sequence[str] = (), receipts: Sequence[Statement] = ()
) -> BundleReport:
    """Verify each record, and that the room's record commits to the others. Receipts must match the record
    of its log. Blocks the thread."""
    with tempfile.TemporaryDirectory(prefix="hutch-verify-") as folder:
        try:
            interview, files, withheld, labels = _unpack(path, Path(folder))
        except (zipfile.BadZipFile, OSError, ValueError, KeyError, NotImplementedError) as error:
            raise BadRequest(f"'{path}' is not the record of an interview: {error}") from None
        return _verify(interview, files, withheld, labels, keys, receipts)


def _unpack(path: Path, folder: Path) -> tuple[str, dict[str, Path], list[str], dict[str, dict[str, Any]]]:
    """Unpack the records under names of our own. Everything in the file is untrusted."""
    with zipfile.ZipFile(path) as bundle:
        entries = bundle.infolist()
        names = [each.filename for each in entries]
        if len(entries) > MAX_RECORDS + 2 or len(set(names)) != len(names):
            raise ValueError("it has too many parts, or two with one name")
        if any(each.compress_type != zipfile.ZIP_STORED for each in entries):
            raise ValueError("a part is compressed")
        if bundle.getinfo(MANIFEST).file_size > MAX_MANIFEST_BYTES:
            raise ValueError(f"{MANIFEST} is too large")
        manifest = orjson.loads(bundle.read(MANIFEST))
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise ValueError(f"{MANIFEST} does not say {FORMAT}")
        if bundle.getinfo(README_NAME).file_size != len(README) or bundle.read(README_NAME) != README:
            raise ValueError(f"{README_NAME} was changed")
        files: dict[str, Path] = {}
        labels: dict[str, dict[str, Any]] = {}
        for each in manifest["records"]:
            session = str(each["session"])
            if not is_id(session) or each["file"] != f"records/{session}.zip":
                raise ValueError("a record has a wrong name")
            files[session] = folder / f"{len(files)}.zip"
            labels[session] = {name: each[name] for name in LABELS if name in each}
            with bundle.open(each["file"]) as source, files[session].open("wb") as target:
                shutil.copyfileobj(source, target)
        if set(names) != {README_NAME, MANIFEST, *(f"records/{each}.zip" for each in files)}:
            raise ValueError(f"it has parts that {MANIFEST} does not name")
        withheld = [str(each) for each in manifest.get("withheld", [])]
        return str(manifest["interview"]), files, withheld, labels


def _verify(
    interview: str,
    files: Mapping[str, Path],
    withheld: Sequence[str],
    labels: Mapping[str, Mapping[str, Any]],
    keys: Sequence[str],
    receipts: Sequence[Statement],
) -> BundleReport:
    reports: list[Report] = []
    problem: str | None = None
    for session, file in files.items():
        own = [each for each in receipts if each.session_id == session]
        report = verify_record(file, keys=keys, receipts=own)
        reports.append(report)
        if not report.ok:
            problem = problem or f"The record of {session}: {report.problem}"
        elif report.session != session:
            problem = problem or f"The record named {session} is that of {report.session}."
    if others := [each.session_id for each in receipts if each.session_id not in files]:
        problem = problem or f"The record of {others[0]}, of which there is a receipt, is missing."
    if interview not in files:
        problem = problem or f"The record of the room, {interview}, is missing."
    if len(reports) > 1 and not frozenset.intersection(*(frozenset(each.keys) for each in reports)):
        problem = problem or "The records have no signing key in common."
    if problem:
        return BundleReport(False, interview, problem, False, tuple(reports))
    try:
        seal, opened = _seal_and_opened_workspaces(files[interview], interview)
    except (KeyError, TypeError, ValueError, AttributeError):  # a signer can write anything
        problem = "The seal in the room's record cannot be read."
        return BundleReport(False, interview, problem, False, tuple(reports))
    if problem := _compare_labels(labels, opened):
        return BundleReport(False, interview, problem, False, tuple(reports))
    if seal is None:
        warning = "The interview was not sealed when it was exported: workspaces may be missing."
        return BundleReport(True, interview, None, False, tuple(reports), (warning,))
    left_out = sorted(set(seal).intersection(withheld) - set(files))
    named = {session: head for session, head in seal.items() if session not in left_out}
    problem = _compare(named, {each: _head(file) for each, file in files.items() if each != interview})
    warnings = tuple(
        f"The record of {each} is not here: the file says that its reader may not see it."
        for each in left_out
    )
    sealed = problem is None and not left_out
    return BundleReport(problem is None, interview, problem, sealed, tuple(reports), warnings)


def _compare(seal: Mapping[str, tuple[int, str]], heads: Mapping[str, tuple[int, str]]) -> str | None:
    if missing := sorted(set(seal) - set(heads)):
        return f"The record of workspace {missing[0]} is missing; the room's record names it."
    if added := sorted(set(heads) - set(seal)):
        return f"The workspace {added[0]} does not belong to this interview."
    for session, head in heads.items():
        if seal[session] != head:
            return f"The log of {session} ends at {head[0]}, and the room's record says {seal[session][0]}."
    return None


def _head(file: Path) -> tuple[int, str]:
    with open_archive(file, size_limit_bytes=SIZE_LIMIT_BYTES) as archive:
        manifest = parse_manifest(archive.read("manifest.json", MANIFEST_LIMIT_BYTES).rstrip(b"\n"))
    return manifest.events, manifest.head


def _compare_labels(
    labels: Mapping[str, Mapping[str, Any]], opened: Mapping[str, Mapping[str, Any]]
) -> str | None:
    """The manifest is not signed: what it says about a workspace must be what the room's log says."""
    for session, signed in opened.items():
        for name, value in labels.get(session, {}).items():
            if signed[name] != value:
                return f"{MANIFEST} has another {name} for {session} than the room's record."
    return None


def _seal_and_opened_workspaces(
    file: Path, interview: str
) -> tuple[dict[str, tuple[int, str]] | None, dict[str, dict[str, Any]]]:
    """The heads in the last seal of a verified room, None if it has no readable one; and the workspaces that
    its candidate has opened, with their labels."""
    seal: dict[str, tuple[int, str]] | None = None
    opened: dict[str, dict[str, Any]] = {}
    questions: dict[int, str] = {}
    with open_archive(file, size_limit_bytes=SIZE_LIMIT_BYTES) as archive:
        for line in archive.lines("events.ndjson", LINE_LIMIT_BYTES):
            if not any(each in line for each in READ_EVENTS):
                continue
            record = parse_event(line, SessionId(interview))
            if record.payload is None or record.type.encode() not in READ_EVENTS:
                continue
            payload = orjson.loads(record.payload)
            if record.type == "interview.sealed":
                logs = payload.get("logs", [])
                seal = {str(each["session"]): (int(each["seq"]), str(each["hash"])) for each in logs}
                continue
            if record.type == "question.opened":
                questions[payload["number"]] = payload["question"]
            opened[payload["workspace"]] = {**payload, "question": questions[payload["number"]]}
    return seal, opened
