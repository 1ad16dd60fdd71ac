"""`hutch changes`: changes are read, merged and closed, as text and JSON."""

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from tests.cli.attached_users import running_server
from tests.cli.project_with_failing_test import BREAKS, FILES, FIXES, Project, lines, temporary_project
from tests.deadline import DEADLINE_S
from tests.forge.repositories import commit, git, make_repository
from tests.forked_command import HUTCH, run
from tests.restored_directories import Saved, saved


@pytest.fixture
def project() -> Iterator[Project]:
    with new_project() as made:
        yield made


@contextmanager
def new_project() -> Iterator[Project]:
    with temporary_project() as made:
        yield made


@dataclass(frozen=True)
class Proposed:
    """A project whose only run has proposed a change."""

    project: Project
    change: dict[str, Any]


@pytest.fixture(scope="module")
def first() -> Iterator[tuple[Proposed, Saved]]:
    with new_project() as project:
        ran = project.run("--json", replies=FIXES)
        assert ran.returncode == 0, ran.stderr
        with saved(project.place) as files:
            yield Proposed(project, lines(ran.stdout)[-1]["change"]), files


@pytest.fixture
def proposed(first: tuple[Proposed, Saved]) -> Proposed:
    made, files = first
    files.restore()
    return made


def test_a_new_installation_has_none(project: Project) -> None:
    shutil.rmtree(project.place / "home")
    ran = project.hutch("changes", "list")
    assert (ran.returncode, ran.stdout) == (0, "")
    assert "hutch run PROMPT" in ran.stderr
    ran = project.hutch("changes", "list", "--json")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    for words in (("show",), ("diff", "last"), ("merge", "chg_x"), ("close", "hutch/x")):
        ran = project.hutch("changes", *words)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "There is no change" in ran.stderr


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("show", "chg_\x1b[31m"), "not_found"),
        (("comments",), "not_found"),
        (("comment", "last", "adding.py", "x"), "bad_request"),
        (("approve",), "not_found"),
        (("request-changes", "last", "--body", "x"), "not_found"),
        (("merge",), "not_found"),
        (("merge", "--squash", "--strategy", "merge"), "bad_request"),
        (("propose", "ses_x"), "not_found"),
        (("deliver", "ses_x"), "not_found"),
    ],
)
def test_errors_are_printed_as_json(project: Project, words: tuple[str, ...], code: str) -> None:
    ran = project.hutch("changes", *words, "--json")
    assert (ran.returncode, ran.stdout) == (2, "")
    result = json.loads(ran.stderr)
    assert result["error"]["code"] == code and result["error"]["detail"]
    assert project.hutch("changes", *words).stderr.startswith("hutch: ")


def test_a_change_is_listed_shown_read_and_merged(proposed: Proposed) -> None:
    project, change = proposed.project, proposed.change
    listed = project.hutch("changes", "list").stdout
    assert listed.startswith(change["id"])
    assert listed.endswith("open    work  hutch/add-instead-of-subtracting  Add instead of subtracting\n")

    shown = project.hutch("changes", "show").stdout
    assert shown.startswith("Add instead of subtracting\n\nThe sign was wrong.\n\n")
    assert f"commit     {change['commit']}\n" in shown
    assert "tests      1 passed" in shown
    result = json.loads(project.hutch("changes", "show", change["branch"], "--json").stdout)
    assert (result["id"], result["state"], result["base"]) == (change["id"], "open", "main")

    patch = project.hutch("changes", "diff", change["id"][-6:]).stdout
    assert patch.strip() == git(project.work, "diff", "main", change["branch"])

    merged = project.hutch("changes", "merge", change["id"], "--json")
    assert (merged.returncode, merged.stderr) == (0, "")
    assert json.loads(merged.stdout) == {
        **{"change": change["id"], "base": "main", "commit": change["commit"], "branch_deleted": True},
        "overridden": [],
    }
    assert git(project.work, "rev-parse", "main") == change["commit"]
    assert "return a + b" in (project.work / "adding.py").read_text()

    listed = project.hutch("changes", "list")
    assert (listed.stdout, listed.stderr) == ("", "Not shown: 1 merged. See all: hutch changes list --all\n")
    assert project.hutch("changes", "list", "--json").stderr == ""
    everything = project.hutch("changes", "list", "--all")
    assert " merged " in everything.stdout and everything.stderr == ""
    for word in ("merge", "close"):
        again = project.hutch("changes", word)
        assert again.returncode == 2
        assert "is merged already" in again.stderr


def test_a_squash_merge_has_the_users_author(proposed: Proposed) -> None:
    project = proposed.project
    (project.place / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    refused = project.hutch("changes", "merge", "--strategy", "rebase")
    assert (refused.returncode, "Only a pull request can be rebased" in refused.stderr) == (2, True)
    assert project.hutch("changes", "merge", "--squash").returncode == 0
    assert git(project.work, "log", "-1", "--format=%an|%s|%P") == (
        f"Ada Lovelace|Add instead of subtracting|{git(project.work, 'rev-parse', 'main~')}"
    )


def test_a_conflict_names_the_file_and_leaves_it_open(proposed: Proposed) -> None:
    project = proposed.project
    theirs = commit(project.work, {"adding.py": "def add(a, b):\n    return sum((a, b))\n"})
    ran = project.hutch("changes", "merge")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "have both changed adding.py" in ran.stderr
    assert git(project.work, "rev-parse", "main") == theirs
    assert " open " in project.hutch("changes", "list").stdout


def test_closing_a_change_deletes_its_branch(proposed: Proposed) -> None:
    project, change = proposed.project, proposed.change
    ran = project.hutch("changes", "close", change["id"][:12] if len(change["id"]) < 12 else change["id"])
    assert (ran.returncode, ran.stderr) == (0, "")
    assert git(project.work, "for-each-ref", "--format=%(refname:short)", "refs/heads") == "main"
    assert json.loads(project.hutch("changes", "show", "--json").stdout)["state"] == "closed"


def test_a_missing_repository_is_reported(proposed: Proposed) -> None:
    project = proposed.project
    shutil.rmtree(project.work / ".git")
    for word in ("diff", "merge"):
        ran = project.hutch("changes", word)
        assert (ran.returncode, ran.stdout) == (2, "")
        assert "no longer exists" in ran.stderr


def test_comments_on_a_change_are_stored_and_listed(proposed: Proposed) -> None:
    project, change = proposed.project, proposed.change
    (project.place / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    said = project.hutch(
        "changes", "comment", "last", "adding.py:2", "Why \x1b[31mso?", "--severity", "should"
    )
    assert said.returncode == 0, said.stderr
    old = project.hutch("changes", "comment", "last", "adding.py:2", "Keep it.", "--old")
    assert old.returncode == 0, old.stderr
    for place, why in (
        ("adding.py:900", "has 2 lines"),
        ("nowhere.py:1", "no file"),
        ("adding.py", "PATH:LINE"),
    ):
        refused = project.hutch("changes", "comment", "last", place, "x")
        assert (refused.returncode, why in refused.stderr) == (2, True), refused.stderr
    assert project.hutch("changes", "approve", "--body", "Good.").returncode == 0
    listed = project.hutch("changes", "comments")
    assert re.search(r"^adding\.py:2 \(old\)  cmt_\w+\n    Keep it\.$", listed.stdout, re.MULTILINE)
    assert "adding.py:2  should  cmt_" in listed.stdout and "\x1b" not in listed.stdout
    assert f"approved by Ada Lovelace <ada@example.org> at {change['commit'][:12]}" in listed.stdout
    for each in (said, old):
        assert project.hutch("changes", "resolve", "last", each.stdout.strip()).returncode == 0
    result = lines(project.hutch("changes", "comments", "--json").stdout)
    assert [each["type"] for each in result] == ["review"]
    result = lines(project.hutch("changes", "comments", "--all", "--json").stdout)
    assert result[1]["resolved_by"] == "Ada Lovelace <ada@example.org>"
    assert project.hutch("changes", "merge", "--strategy", "merge", "--squash").returncode == 2
    merged = project.hutch("changes", "merge", "--strategy", "merge")
    assert merged.returncode == 0, merged.stderr
    assert git(project.work, "rev-parse", "main^2") == change["commit"]


def test_a_change_with_failing_tests_is_merged_only_with_force(project: Project) -> None:
    assert project.run(replies=BREAKS).returncode == 3
    change = project.hutch("changes", "propose").stdout.split()[0]
    before = git(project.work, "rev-parse", "main")
    refused = project.hutch("changes", "merge")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "its tests fail (1 failed)" in refused.stderr
    assert f"hutch changes merge {change} --force" in refused.stderr
    assert git(project.work, "rev-parse", "main") == before
    forced = project.hutch("changes", "merge", "--force")
    assert forced.returncode == 0
    assert forced.stderr == "hutch: merged although its tests fail (1 failed)\n"
    assert git(project.work, "rev-parse", "main") != before


def test_tests_that_cannot_run_block_a_merge(project: Project) -> None:
    command = "echo 'error: <b>@octocat.'; false"
    assert project.run(replies=BREAKS, HUTCH_TESTS__COMMAND=command).returncode == 3
    assert project.hutch("changes", "propose").returncode == 0
    refused = project.hutch("changes", "merge")
    why = "failed as a whole: The tests failed with exit code 1: error: <b>@octocat"
    assert (refused.returncode, f"its tests fail ({why})" in refused.stderr) == (2, True), refused.stderr
    assert f"tests      {why}\n" in project.hutch("changes", "show").stdout


def test_a_reviewer_who_requested_changes_must_approve_first(proposed: Proposed) -> None:
    project = proposed.project
    (project.place / ".gitconfig").write_text("[user]\n\tname = Ada Lovelace\n\temail = ada@example.org\n")
    assert (
        project.hutch("changes", "request-changes", "last", "--body", "Say\nwhy \x1b[1mso.").returncode == 0
    )
    refused = project.hutch("changes", "merge")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "Ada Lovelace <ada@example.org> asked for changes at " in refused.stderr
    assert ": Say why [1mso. Fix it" in refused.stderr.replace("..", ".")
    other = project.hutch("changes", "approve", HUTCH_DELIVERY__AUTHOR="Bob <bob@example.org>")
    assert other.returncode == 0
    assert project.hutch("changes", "merge").returncode == 2
    assert project.hutch("changes", "approve").returncode == 0
    assert project.hutch("changes", "merge").returncode == 0


def test_changes_of_the_current_repository_come_first(proposed: Proposed) -> None:
    project, change = proposed.project, proposed.change
    other = project.place / "other"
    shutil.copytree(project.work, other)
    git(other, "branch", "-D", change["branch"])
    ran = project.hutch(
        "run", "Mend add", "--repo", str(other), "--model", project.cassette(*FIXES), "--json"
    )
    assert ran.returncode == 0, ran.stderr
    newest = lines(ran.stdout)[-1]["change"]
    listed = project.hutch("changes", "list")
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [change["id"]]
    assert listed.stderr == "Not shown: 1 of other repositories. See all: hutch changes list --all\n"
    everything = project.hutch("changes", "list", "--all").stdout.splitlines()
    assert [line.split()[0] for line in everything] == [newest["id"], change["id"]]
    assert json.loads(project.hutch("changes", "show", "last", "--json").stdout)["id"] == change["id"]
    assert project.hutch("changes", "close", change["id"]).returncode == 0
    listed = project.hutch("changes", "list")  # nothing is open here, though elsewhere
    assert listed.stdout == ""
    assert listed.stderr == (
        "Not shown: 1 closed, 1 of other repositories. See all: hutch changes list --all\n"
    )
    third = project.place / "third"
    make_repository(third, {"a": "1\n"})
    for command in ("merge", "close", "show", "diff"):
        wrong = run(
            [HUTCH, "changes", command, "last"],
            cwd=third,
            env=project.environment(),
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert (wrong.returncode, wrong.stdout) == (2, "")
        assert f"There is no change of '{third}'." in wrong.stderr
    elsewhere = run(
        [HUTCH, "changes", "show", "--json"],
        cwd=project.place,
        env=project.environment(),
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert json.loads(elsewhere.stdout)["id"] == newest["id"]


def test_verdicts_and_comments_are_shown_with_the_change(proposed: Proposed) -> None:
    project, change = proposed.project, proposed.change
    assert project.hutch("changes", "request-changes", "last", "--body", "Add a test.").returncode == 0
    assert project.hutch("changes", "comment", "last", "adding.py:2", "Why?").returncode == 0
    assert project.hutch("changes", "list").stdout.endswith("  (changes requested, 1 comment)\n")
    shown = project.hutch("changes", "show").stdout
    said = r"\nchanges requested by .* at \w{12}\n    Add a test\.\nadding\.py:2  cmt_\w+\n    Why\?\n$"
    assert re.search(said, shown)
    assert project.hutch("changes", "approve").returncode == 0
    (row,) = lines_of(project.hutch("changes", "list", "--json").stdout)
    assert (row["verdict"], row["comments"], row["undone"]) == ("approved", 1, False)
    result = json.loads(project.hutch("changes", "show", change["id"], "--json").stdout)
    assert [each["verdict"] for each in result["reviews"]] == ["changes_requested", "approved"]
    assert [each["body"] for each in result["comments"]] == ["Why?"]


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_a_change_whose_run_was_undone_is_marked() -> None:
    with running_server() as server:
        make_repository(server.place / "project", FILES)
        words = ["--repo", str(server.place / "project"), "--prompt", "Mend add", "--deliver"]
        words += ["--model", server.model(*FIXES)]
        id = server.json("sessions", "new", *words)["id"]
        server.until(id, "idle", "parked")
        (before,) = lines_of(server.hutch("changes", "list", "--all", "--json").stdout)
        undone = server.hutch("undo", id)
        assert undone.returncode == 0, undone.stderr
        (row,) = lines_of(server.hutch("changes", "list", "--all", "--json").stdout)
        assert (before["undone"], row["undone"], row["state"]) == (False, True, "open")
        assert server.hutch("changes", "list").stdout.endswith("  (undone)\n")
        shown = server.hutch("changes", "show", row["id"]).stdout
        assert "\nundone     its run was undone in the session\n" in shown
        refused = server.hutch("changes", "merge", row["id"])
        assert refused.returncode != 0 and "--force" in refused.stderr
        assert f"{before['id']} is not merged: its run was undone in the session." in refused.stderr
        assert server.hutch("redo", id).returncode == 0
        (row,) = lines_of(server.hutch("changes", "list", "--all", "--json").stdout)
        assert (row["undone"], server.hutch("changes", "merge", row["id"]).returncode) == (False, 0)
