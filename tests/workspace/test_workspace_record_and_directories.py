"""The record of a workspace can be read again."""

from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound, Unavailable
from hutch.workspace.lifecycle.workspace_record_and_directories import FILE, Home, Record, check_id

RECORD = Record(
    id="w",
    source="/srv/project",
    mode="overlay",
    mode_reason="large",
    base="project-1",
    commit="1" * 40,
    branch="main",
    created="2026-01-01T00:00:00+00:00",
    quota_bytes=10,
    quota_files=20,
    notes=("Submodules are empty: é.",),
)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    assert Record.read(tmp_path) == RECORD


def test_what_a_later_version_added_is_passed_over(tmp_path: Path) -> None:
    RECORD.write(tmp_path)
    text = (tmp_path / FILE).read_text().replace('"id"', '"later": 1, "id"')
    (tmp_path / FILE).write_text(text)
    assert Record.read(tmp_path) == RECORD


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", '{"id": 1', '{"notes": 5}'])
def test_an_unreadable_record_is_refused_with_a_reason(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text)
    with pytest.raises(Unavailable, match=f"The workspace '{tmp_path.name}' cannot be read"):
        Record.read(tmp_path)


def test_a_missing_record_is_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no workspace"):
        Record.read(tmp_path / "gone")
    assert Home(tmp_path / "gone").records() == []


def test_every_workspace_and_nothing_else(tmp_path: Path) -> None:
    home = Home(tmp_path / "data")
    home.make()
    for name in ("w", ".new-1.2-x", "empty"):
        (home.workspaces / name).mkdir()
    RECORD.write(home.workspaces / "w")
    RECORD.write(home.workspaces / ".new-1.2-x")
    assert home.records() == [RECORD]
    assert {path.stat().st_mode & 0o777 for path in (home.data, home.bases, home.workspaces)} == {0o700}


@pytest.mark.parametrize("id", ["", ".", "..", "a/b", "-x", ".new", "a b", "é", "a" * 65, "a\0"])
def test_what_cannot_be_an_id(id: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a workspace's id"):
        check_id(id)
