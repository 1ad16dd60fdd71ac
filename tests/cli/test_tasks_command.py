"""`hutch tasks` in a repository, without a server."""

import getpass
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


def hutch(
    repository: Path, *words: str, code: int = 0, cwd: Path | None = None
) -> "subprocess.CompletedProcess[str]":
    done = run(
        [HUTCH, "tasks", *words],
        cwd=cwd or repository,
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": str(repository.parent / "home")},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == code, done.stderr
    return done


def in_parent(repository: Path, *words: str) -> str:
    """The output of a command outside of the repository."""
    return hutch(repository, *words, cwd=repository.parent).stdout


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
    assert "[ ] green" in shown and "progress half way" in shown and "state: todo -> done" in shown
    assert f" {getpass.getuser()} changed state" in shown
    missing = hutch(repository, "show", "T-9", code=2)
    assert "There is no task 'T-9'" in missing.stderr


CONFIG = """\
[core]
\tbare = false
[remote "Upstream"]
\turl = https://github.com/aaa/upstream.git
[submodule "x"]
\turl = https://github.com/aaa/module
[remote "origin"]
\turl = {}
"""


@pytest.mark.parametrize(
    ("url", "name", "address"),
    [
        ("git@github.com:acme/shop.git", "github.com/acme/shop", "git@github.com:acme/shop.git"),
        ("https://me:key@github.com/acme/shop", "github.com/acme/shop", "https://github.com/acme/shop"),
        ("/srv/git/shop.git", "/srv/git/shop", "/srv/git/shop.git"),
    ],
)
def test_tasks_of_a_clone_belong_to_its_origin_and_name_its_address(
    repository: Path, url: str, name: str, address: str
) -> None:
    (repository / ".git" / "config").write_text(CONFIG.format(url))
    made = json.loads(hutch(repository, "add", "Fix login", "--json").stdout)
    assert (made["repository"], made["address"]) == (name, address)


def test_a_name_without_a_scheme_is_no_directory(repository: Path) -> None:
    added = hutch(repository, "add", "A", "--repo", "github.com/acme/shop", "--json").stdout
    assert json.loads(added)["address"] == "https://github.com/acme/shop"
    here = json.loads(hutch(repository, "add", "B", "--repo", ".", "--json").stdout)
    assert here["address"] == str(repository)
    assert json.loads(hutch(repository, "add", "C", "--repo", "shop", "--json").stdout)["address"] == ""


def test_criteria_are_met_and_filters_saved(repository: Path) -> None:
    hutch(repository, "add", "Fix login", "--label", "bug", "--criterion", "green")
    hutch(repository, "add", "Elsewhere", "--repo", "https://github.com/acme/shop", "--owner", "bo")
    hutch(repository, "edit", "T-1", "--criterion", "fast", "--met", "1")
    shown = hutch(repository, "show", "T-1").stdout
    assert "  [x] green\n  [ ] fast\n" in shown and "criteria: met 'green', added 'fast'" in shown
    assert "has no criterion 3. It has 2" in hutch(repository, "edit", "T-1", "--met", "3", code=2).stderr
    line = "T-1      todo      Fix login #bug"
    hutch(repository, "list", "--label", "bug", "--owner", "-", "--save", "my bugs")
    assert in_parent(repository, "list", "--filter", "my bugs") == f"{line}\n"
    everywhere = in_parent(repository, "list").splitlines()
    assert everywhere == [
        "T-1      todo      Elsewhere @bo [github.com/acme/shop]",
        f"{line} [{str(repository).lower()}]",
    ]
    assert "label bug" in in_parent(repository, "filters")
    hutch(repository, "filters", "--delete", "my bugs")
    assert "You have no filter" in hutch(repository, "list", "--filter", "my bugs", code=2).stderr


def test_a_file_is_synced_in_both_directions(repository: Path) -> None:
    file = repository / "docs" / "TASKS.md"
    file.write_bytes(b"# Plan\r\n\r\n- [ ] Fix login\r\n  caf\xe9\r\n")
    file.chmod(0o640)
    assert hutch(repository, "sync").stdout == "added T-1 Fix login\nTASKS.md: 1 line written\n"
    assert file.read_bytes() == b"# Plan\r\n\r\n- [ ] T-1 Fix login <!-- hutch:rev=1 -->\r\n  caf\xe9\r\n"
    assert file.stat().st_mode & 0o777 == 0o640
    hutch(repository, "edit", "T-1", "--title", "Board")
    file.write_bytes(file.read_bytes().replace(b"[ ]", b"[x]"))
    assert hutch(repository, "sync").stdout == "changed T-1 Board\nTASKS.md: 1 line written\n"
    assert b"- [x] T-1 Board" in file.read_bytes()
    assert hutch(repository, "sync").stdout == "TASKS.md and the tasks agree.\n"
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
    text = file.read_text() + "\nRead *this* first.\n"
    file.write_text(text)
    hutch(repository, "sync")
    file.unlink()
    hutch(repository, "edit", "T-1", "--title", "B")
    hutch(repository, "sync")
    assert file.read_text() == text.replace("A <!-- hutch:rev=1", "B <!-- hutch:rev=2")
    file.unlink()
    hutch(repository, "add", "C", "--repo", "/srv/other")
    hutch(repository, "sync", "--repo", "/srv/other")  # as if another repository was cloned here
    assert file.read_text() == "# Tasks\n\n- [ ] T-1 C <!-- hutch:rev=1 -->\n"


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
    problems = repository.parent / "problems.txt"
    with problems.open("w") as written:
        watcher = subprocess.Popen(
            [HUTCH, "tasks", "sync", "--watch"], cwd=repository, env=environment, stderr=written
        )
    try:
        until(lambda: "T-1 A" in file.read_text())
        hutch(repository, "edit", "T-1", "--title", "Board")
        until(lambda: "T-1 Board" in file.read_text())
        file.write_text(file.read_text() + "- [ ] B\n")
        until(lambda: "T-2 B" in file.read_text())
        assert "T-2" in hutch(repository, "list").stdout
        tasks = "".join(f"- [ ] Task {number}\n" for number in range(8))
        file.write_text(file.read_text() + tasks)
        until(lambda: "T-10 Task 7" in file.read_text())
        text = file.read_text()
        file.write_text("```\n" + text)  # hides all tasks, as a fence does that is being typed
        until(lambda: "no longer shows" in problems.read_text())
        assert len(hutch(repository, "list").stdout.splitlines()) == 10
        file.write_text(text + "- [ ] Last\n")
        until(lambda: "T-11 Last" in file.read_text())
        assert problems.read_text().count("The file is still watched.") == 1
    finally:
        watcher.send_signal(signal.SIGINT)
        watcher.wait(DEADLINE_S)
    assert watcher.returncode == 130


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_tasks_are_assigned_to_agents_and_automatically(repository: Path) -> None:
    for label in ("bug", "docs"):
        hutch(repository, "add", f"Fix {label}", "--label", label)
    where = hutch_config_path(repository)
    where.parent.mkdir(parents=True, exist_ok=True)
    where.write_text('[tasks]\nskills = ["persona:engineer=bug", "persona:pair=docs"]\n')
    shown = hutch(repository, "assign", "--auto", "--dry-run").stdout.splitlines()
    assert shown == [
        "T-1 Fix bug: persona:engineer knows bug; has 0 open tasks.",
        "T-2 Fix docs: persona:pair knows docs; has 0 open tasks.",
    ]
    assert "No agent has worked on it" in hutch(repository, "work", "T-1").stderr
    made = hutch(repository, "assign", "--auto")
    assert made.stdout.splitlines() == shown and "hutch up" in made.stderr
    assert hutch(repository, "work", "T-2").stdout == "pair waiting: is queued\n"
    refused = hutch(repository, "assign", "T-1", code=2)
    assert "assigned to this task already" in refused.stderr
    assert hutch(repository, "unassign", "T-1").stdout == "engineer cancelled: cancelled by a user\n"
    again = hutch(repository, "assign", "T-1", "--reviewer", "reviewer", "--merge")
    assert again.stdout == "engineer, reviewed by reviewer waiting: is queued\n"


def hutch_config_path(repository: Path) -> Path:
    env = {"PATH": os.environ["PATH"], "HUTCH_HOME": str(repository.parent / "home")}
    done = run([HUTCH, "config", "path"], cwd=repository, env=env, capture_output=True, text=True)
    return Path(done.stdout.strip().splitlines()[0])
