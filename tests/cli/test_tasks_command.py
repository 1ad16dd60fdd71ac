"""`hutch tasks` in a repository, without a server."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.forked_command import HUTCH, run


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    repository = tmp_path / "repo"
    (repository / ".git").mkdir(parents=True)
    (repository / "docs").mkdir()
    return repository


def hutch(repository: Path, *words: str, code: int = 0) -> "subprocess.CompletedProcess[str]":
    done = run(
        [HUTCH, "tasks", *words],
        cwd=repository,
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(repository.parent / "home")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == code, done.stderr
    return done


def test_tasks_are_added_changed_listed_and_shown(repository: Path) -> None:
    added = json.loads(
        hutch(repository, "add", "Fix", "login", "--label", "bug", "--criterion", "green", "--json").stdout
    )
    assert (added["key"], added["repository"]) == ("T-1", str(repository).lower())
    hutch(repository, "edit", "T-1", "--owner", "alice", "--priority", "high")
    assert hutch(repository, "list").stdout == "T-1      todo      Fix login @alice #bug (high)\n"
    hutch(repository, "comment", "T-1", "half", "way", "--progress")
    hutch(repository, "done", "T-1")
    assert hutch(repository, "list").stdout == ""
    assert hutch(repository, "list", "--all").stdout.startswith("T-1      done")
    shown = hutch(repository, "show", "T-1").stdout
    assert "[ ] green" in shown and "progress half way" in shown and "state: 'todo' -> 'done'" in shown
    missing = hutch(repository, "show", "T-9", code=2)
    assert "There is no task 'T-9'" in missing.stderr


def test_a_file_is_synced_in_both_directions(repository: Path) -> None:
    file = repository / "docs" / "TASKS.md"
    file.write_bytes(b"# Plan\r\n\r\n- [ ] Fix login\r\n  caf\xe9\r\n")
    file.chmod(0o640)
    assert hutch(repository, "sync").stdout == "added T-1 Fix login\n"
    assert file.read_bytes() == b"# Plan\r\n\r\n- [ ] T-1 Fix login <!-- hutch:rev=1 -->\r\n  caf\xe9\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    hutch(repository, "edit", "T-1", "--title", "Board")
    file.write_bytes(file.read_bytes().replace(b"[ ]", b"[x]"))
    assert hutch(repository, "sync").stdout == "changed T-1 Board\n"
    assert b"- [x] T-1 Board" in file.read_bytes()
    assert json.loads(hutch(repository, "sync", "--json").stdout)["updates"] == []


def test_a_conflict_is_reported_with_the_command_that_resolves_it(repository: Path) -> None:
    file = repository / "docs" / "TASKS.md"
    file.write_text("- [ ] T-1 A\n")
    hutch(repository, "sync")
    hutch(repository, "edit", "T-1", "--title", "Board")
    file.write_text("- [ ] T-1 File\n")
    reported = hutch(repository, "sync").stderr
    assert "conflict T-1 title: file 'File', stored 'Board'" in reported
    assert "hutch tasks edit T-1 --title 'Board'" in reported
    hutch(repository, "edit", "T-1", "--title", "Board")
    hutch(repository, "sync")
    assert "T-1 Board" in file.read_text()


def test_a_dry_run_changes_nothing_and_a_deleted_file_is_written_again(repository: Path) -> None:
    file = repository / "docs" / "TASKS.md"
    hutch(repository, "add", "A")
    assert hutch(repository, "sync", "--dry-run").stdout == "# Tasks\n\n- [ ] T-1 A <!-- hutch:rev=1 -->\n"
    assert not file.exists()
    hutch(repository, "sync")
    text = file.read_text()
    file.unlink()
    hutch(repository, "sync")
    assert file.read_text() == text


def test_a_link_is_not_followed(repository: Path) -> None:
    secret = repository.parent / "secret.md"
    secret.write_text("- [ ] secret\n")
    (repository / "docs" / "TASKS.md").symlink_to(secret)
    assert "is not a regular file" in hutch(repository, "sync", code=2).stderr
    assert secret.read_text() == "- [ ] secret\n"


def test_backlog_folders_are_exported_and_imported(repository: Path) -> None:
    hutch(repository, "add", "A", "--criterion", "green")
    assert json.loads(hutch(repository, "export", "--json").stdout) == {"files": ["backlog/tasks/t-1 - A.md"]}
    assert hutch(repository, "import", "--repo", "/srv/other").stdout == "1 added, 0 changed.\n"
    assert hutch(repository, "list", "--repo", "/srv/other").stdout == "T-1      todo      A\n"


def test_a_watched_file_follows_edits_of_both_sides(repository: Path) -> None:
    file = repository / "docs" / "TASKS.md"
    file.write_text("- [ ] A\n")
    environment = {"PATH": os.environ["PATH"], "HUTCH_HOME": str(repository.parent / "home")}
    hutch(repository, "list")  # creates the database
    watcher = subprocess.Popen([HUTCH, "tasks", "sync", "--watch"], cwd=repository, env=environment)
    try:
        until(lambda: "T-1 A" in file.read_text())
        hutch(repository, "edit", "T-1", "--title", "Board")
        until(lambda: "T-1 Board" in file.read_text())
        file.write_text(file.read_text() + "- [ ] B\n")
        until(lambda: "T-2 B" in file.read_text())
        assert "T-2" in hutch(repository, "list").stdout
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.wait(DEADLINE_S)
    assert watcher.returncode == 130


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
