"""The record of an interview is untrusted: files that are none, or say something false, are refused."""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.events import InterviewSealed, QuestionOpened, SessionEnded, SessionOpened
from hutch.domain.ids import new_session_id
from hutch.domain.log_entry_audience import WHOLE
from hutch.store.event_log import open_log
from hutch.store.interview_record_bundle import is_bundle, verify_bundle, write_bundle
from hutch.store.record_export import export_record

pytestmark = pytest.mark.anyio


LABELS = {"number": 1, "question": "double", "language": "python"}


async def a_bundle(place: Path, *, sealed_seq: Any = None) -> tuple[Path, list[str]]:
    """A room with one workspace; `sealed_seq`: another number than the true one in the seal."""
    room, workspace = new_session_id(), new_session_id()
    async with open_log(place / "hutch.db", place / "blobs", place / "key") as log:
        head = await log.append(workspace, [SessionOpened(), SessionEnded(outcome="done")])
        seal = {"session": workspace, "seq": sealed_seq or head.seq, "hash": head.hash}
        opened = QuestionOpened(by="", number=1, question="double", language="python", workspace=workspace)
        sealed = InterviewSealed(logs=(seal,))
        await log.append(room, [SessionOpened(), opened, sealed, SessionEnded(outcome="done")])
        records = {}
        for session in (room, workspace):
            records[str(session)] = place / f"{session}.zip"
            await export_record(log, session, records[str(session)], WHOLE, overwrite=False)
    bundle = place / "bundle.zip"
    write_bundle(bundle, room, records, {workspace: LABELS})
    return bundle, [room, workspace]


def rewritten(bundle: Path, changes: Mapping[str, Any], compression: int = zipfile.ZIP_STORED) -> Path:
    """A copy with other parts: bytes replace one, None removes it, new names are added."""
    target = bundle.with_name("rewritten.zip")
    with zipfile.ZipFile(bundle) as source:
        parts = {name: source.read(name) for name in source.namelist()}
    parts.update(changes)
    with zipfile.ZipFile(target, "w", compression) as made:
        for name, content in parts.items():
            if content is not None:
                made.writestr(name, content)
    return target


async def test_a_true_record_verifies_and_the_same_logs_give_the_same_bytes(tmp_path: Path) -> None:
    bundle, sessions = await a_bundle(tmp_path)
    report = verify_bundle(bundle)
    assert (report.ok, report.sealed, report.interview, report.problem) == (True, True, sessions[0], None)
    assert is_bundle(bundle) and not is_bundle(tmp_path / f"{sessions[0]}.zip")
    again = tmp_path / "again.zip"
    records = {each: tmp_path / f"{each}.zip" for each in sessions}
    write_bundle(again, sessions[0], records, {sessions[1]: LABELS})
    assert again.read_bytes() == bundle.read_bytes()
    assert not verify_bundle(bundle, keys=["0" * 64]).ok


async def test_a_seal_that_names_another_head_is_noticed(tmp_path: Path) -> None:
    bundle, sessions = await a_bundle(tmp_path, sealed_seq=7)
    report = verify_bundle(bundle)
    assert not report.ok and f"The log of {sessions[1]} ends at 2" in str(report.problem)


async def test_a_seal_that_makes_no_sense_is_a_problem_and_no_crash(tmp_path: Path) -> None:
    bundle, _ = await a_bundle(tmp_path, sealed_seq={"a": 1})
    report = verify_bundle(bundle)
    assert (report.ok, report.problem) == (False, "The seal in the room's record cannot be read.")


async def test_parts_that_are_not_signed_cannot_say_something_else(tmp_path: Path) -> None:
    bundle, (_, workspace) = await a_bundle(tmp_path)
    with zipfile.ZipFile(bundle) as source:
        manifest = json.loads(source.read("interview.json"))
    for name, other in (("number", 2), ("question", "triple"), ("language", "go")):
        records = [manifest["records"][0], {**manifest["records"][1], name: other}]
        changed = {"interview.json": json.dumps({**manifest, "records": records})}
        report = verify_bundle(rewritten(bundle, changed))
        assert not report.ok and f"another {name} for {workspace}" in str(report.problem)
    with pytest.raises(BadRequest, match=r"README\.txt was changed"):
        verify_bundle(rewritten(bundle, {"README.txt": b"Send it to us to verify it."}))
    left_out = {**manifest, "records": manifest["records"][:1], "withheld": [workspace]}
    changes = {"interview.json": json.dumps(left_out), f"records/{workspace}.zip": None}
    report = verify_bundle(rewritten(bundle, changes))
    assert (report.ok, report.sealed) == (True, False)
    assert f"The record of {workspace} is not here" in report.warnings[0]


async def test_a_record_under_another_name_is_noticed(tmp_path: Path) -> None:
    bundle, (room, workspace) = await a_bundle(tmp_path)
    exchanged = {f"records/{room}.zip": (tmp_path / f"{workspace}.zip").read_bytes()}
    report = verify_bundle(rewritten(bundle, exchanged))
    assert not report.ok and "is that of" in str(report.problem)


async def test_files_that_are_no_such_record_are_refused(tmp_path: Path) -> None:
    bundle, (room, _) = await a_bundle(tmp_path)
    with zipfile.ZipFile(bundle) as source:
        manifest = json.loads(source.read("interview.json"))
    outside = {**manifest, "records": [{"session": room, "file": "../../etc/passwd"}]}
    named = {**manifest, "records": [{"session": "../x", "file": "records/../x.zip"}]}
    for changes in (
        {"interview.json": b"[]"},
        {"interview.json": b"{"},
        {"interview.json": json.dumps({"format": "other"})},
        {"interview.json": json.dumps(outside)},
        {"interview.json": json.dumps(named)},
        {"more.txt": b"x"},
        {f"records/{room}.zip": None},
    ):
        with pytest.raises(BadRequest, match="is not the record of an interview"):
            verify_bundle(rewritten(bundle, changes))
    with pytest.raises(BadRequest, match="a part is compressed"):
        verify_bundle(rewritten(bundle, {}, zipfile.ZIP_DEFLATED))
    with pytest.raises(BadRequest):
        verify_bundle(tmp_path / "none.zip")
