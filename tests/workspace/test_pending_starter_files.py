"""Starter files wait on disk for the worker that prepares their session."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.domain.ids import new_session_id
from hutch.domain.user_given_starter_files import StarterFile
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles

FILES = {"a/b": StarterFile(bytes(range(256)), executable=True), "näme": StarterFile(b"")}


def test_files_are_private_and_read_back_byte_for_byte(tmp_path: Path) -> None:
    staged, id = StagedFiles(tmp_path / "staged"), new_session_id()
    staged.store(id, FILES)
    assert staged.read(id) == FILES
    assert staged.directory.stat().st_mode & 0o777 == 0o700
    assert [each.stat().st_mode & 0o777 for each in staged.directory.iterdir()] == [0o600]
    staged.remove(id)
    staged.remove(id)
    with pytest.raises(Unavailable, match="Create the session again"):
        staged.read(id)


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    staged, id = StagedFiles(tmp_path), new_session_id()
    for content in (b"", b"[]", b'{"a": 1}', b'{"a": ["?", true, 1]}'):
        (tmp_path / f"{id}.json").write_bytes(content)
        with pytest.raises(Unavailable, match="cannot be read"):
            staged.read(id)


def test_old_files_are_listed_and_drafts_removed(tmp_path: Path) -> None:
    staged, id = StagedFiles(tmp_path), new_session_id()
    staged.store(id, FILES)
    (tmp_path / ".draft.json.77").write_text("{")
    assert staged.stored_before(60) == [] and len(list(tmp_path.iterdir())) == 2
    for path in tmp_path.iterdir():
        os.utime(path, (0, 0))
    assert staged.stored_before(60) == [id]
    assert [path.name for path in tmp_path.iterdir()] == [f"{id}.json"]
    assert StagedFiles(tmp_path / "none").stored_before(60) == []
