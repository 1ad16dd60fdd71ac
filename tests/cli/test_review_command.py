"""`hutch review`: an agent reviews a change without a server, and the exit code gives the verdict."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hutch.llm.scripted_model import OFFLINE
from tests.cli.project_with_failing_test import FIXES, Project, call, lines, temporary_project
from tests.forge.github_server import HOST, github
from tests.forge.github_state import Repository
from tests.forge.repositories import commit, git, make_repository

FINDS = (
    {"calls": [call("run_tests")]},
    {"calls": [call("comment", path="adding.py", line=2, severity="blocker", body="Overflows.")]},
    {"calls": [call("finish", title="Not yet.", summary="It overflows.")]},
)
FINE = (
    {"calls": [call("comment", path="adding.py", line=1, severity="could", body="Name it.")]},
    {"calls": [call("finish", title="Good.", summary="")]},
)


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        assert made.run("--json", replies=FIXES).returncode == 0
        yield made


def test_blockers_set_the_exit_code_and_comments_are_stored(project: Project) -> None:
    before = git(project.work, "for-each-ref")
    found = project.hutch("review", "--json", "--model", project.cassette(*FINDS))
    assert found.returncode == 3, found.stdout + found.stderr
    *events, last = lines(found.stdout)
    assert (last["type"], last["verdict"], last["title"]) == ("review", "changes_requested", "Not yet.")
    assert [(each["path"], each["line"], each["severity"]) for each in last["comments"]] == [
        ("adding.py", 2, "blocker")
    ]
    types = [each["event"]["type"] for each in events if each["type"] == "event"]
    assert types[-1] == "review.submitted" and "tests.run" in types
    listed = project.hutch("changes", "comments").stdout
    assert "changes requested by hutch" in listed and "adding.py:2  blocker" in listed
    assert git(project.work, "for-each-ref") == before

    fine = project.hutch("review", "last", "--model", project.cassette(*FINE))
    assert fine.returncode == 0, fine.stderr
    assert "commented: Good." in fine.stdout and "adding.py:1  could" in fine.stdout
    result = [json.loads(line) for line in project.hutch("changes", "comments", "--json").stdout.splitlines()]
    assert [each["type"] for each in result] == ["review", "comment"]


def test_invalid_targets_of_a_review_are_refused(project: Project) -> None:
    for target, code, why in (
        ("chg_none", 2, "There is no change"),
        ("https://github.com/ada/shop", 2, "is not a pull request"),
        ("https://github.com/ada/shop/pull/7", 2, "There is no token"),
    ):
        ran = project.hutch("review", target, "--model", project.cassette(*FINE))
        assert (ran.returncode, why in ran.stderr) == (code, True), ran.stderr


def test_an_unfinished_review_stores_nothing(project: Project) -> None:
    ran = project.hutch("review", "--max-turns", "1", "--model", project.cassette(*FINDS))
    assert ran.returncode == 5, ran.stdout + ran.stderr
    assert project.hutch("changes", "comments", "--json").stdout == ""


def test_without_a_model_an_earlier_review_stays(project: Project) -> None:
    """The attack: remove the model and review again, to lift the block of an earlier review."""
    assert project.hutch("review", "--model", project.cassette(*FINDS)).returncode == 3
    for words in ((), ("--model", f"scripted:{OFFLINE}"), ("--again",)):
        ran = project.hutch("review", "last", *words)
        assert ran.returncode == 6, ran.stdout + ran.stderr
        assert "hutch: No model is connected, so nothing was done." in ran.stderr
        assert "commented" not in ran.stdout
    assert "changes requested by hutch" in project.hutch("changes", "comments").stdout
    merged = project.hutch("changes", "merge")
    assert merged.returncode == 2 and "the agent's review asked for changes" in merged.stderr


def test_a_review_without_a_title_takes_its_first_line(project: Project) -> None:
    for said, title, body in (
        ("## It adds.\n\nNothing is wrong with it.", "It adds.", "Nothing is wrong with it."),
        ("word " * 40, f"{'word ' * 14}w…", ("word " * 40).strip()),
        ("\a", "Review", ""),
    ):
        ran = project.hutch("review", "--json", "--model", project.cassette({"text": said, "times": 9}))
        assert ran.returncode == 0, ran.stderr
        last = lines(ran.stdout)[-1]
        assert (last["title"], last["body"]) == (title, body)


@dataclass
class Pull:
    """Another user's pull request on GitHub."""

    url: str
    repo: Repository
    env: dict[str, str]

    @property
    def reviews(self) -> list[dict[str, Any]]:
        return list(self.repo.pulls[1]["reviews"])


@pytest.fixture
def pull(tmp_path: Path) -> Iterator[Pull]:
    with github(tmp_path) as hub:
        place = tmp_path / "made"
        make_repository(place, {"adding.py": "def add(a, b):\n    return a + b\n"})
        hub.state.add("acme/project", place, permissions={"ada": "write"})
        hub.state.tokens["tok_ada_0123456789"] = "ada"
        repo = hub.repository("acme/project")
        git(place, "checkout", "-q", "-b", "more")
        commit(place, {"adding.py": "def add(a, b):\n    return b + a\n"})
        git(place, "push", "-q", str(repo.path), "HEAD:more")
        hub.state.new_pull(repo, "ada", head="more", base="main", title="Turn", body="", draft=False)
        env = {
            "HUTCH_GITHUB__HOSTS": f"{HOST}:{hub.port}",
            "HUTCH_GITHUB__UNIX_SOCKET": str(hub.socket),
            "GH_ENTERPRISE_TOKEN": "tok_ada_0123456789",
        }
        yield Pull(f"http://{HOST}:{hub.port}/acme/project/pull/1", repo, env)


def test_a_pull_request_is_reviewed_once_for_each_commit(project: Project, pull: Pull) -> None:
    model = ("--model", project.cassette(*FINDS))
    found = project.hutch("review", pull.url, *model, **pull.env)
    assert found.returncode == 3, found.stdout + found.stderr
    assert "tok_ada" not in found.stdout + found.stderr
    [posted] = pull.reviews
    assert [(each["path"], each["line"]) for each in posted["comments"]] == [("adding.py", 2)]
    assert posted["html_url"] in found.stdout
    again = project.hutch("review", pull.url, *model, **pull.env)
    assert (again.returncode, "Already reviewed at " in again.stdout) == (3, True), again.stdout
    assert len(pull.reviews) == 1
    assert project.hutch("review", pull.url, "--again", *model, **pull.env).returncode == 3
    assert len(pull.reviews) == 2


def test_without_a_model_nothing_is_posted_and_the_commit_is_not_reviewed(
    project: Project, pull: Pull
) -> None:
    ran = project.hutch("review", pull.url, **pull.env)
    assert (ran.returncode, pull.reviews) == (6, []), ran.stdout + ran.stderr
    found = project.hutch("review", pull.url, "--model", project.cassette(*FINDS), **pull.env)
    assert (found.returncode, len(pull.reviews)) == (3, 1), found.stdout + found.stderr
