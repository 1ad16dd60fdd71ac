"""`hutch changes` on a pull request: it is read, judged, merged and closed where it is."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.deadline import DEADLINE_S
from tests.forge.github_server import HOST
from tests.forge.github_state import Repository
from tests.forge.repositories import commit, git
from tests.forked_command import HUTCH, run
from tests.sessions.session_server import call
from tests.stories.github_story import FINISH, FIX, TOKEN, Story, story

EVE = "tok_eve_0123456789"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Story, Callable[[], None]]]:
    """A story up to the pull request that a run opened, and a way back to there."""
    people = {"hutch-bot": "write", "eve": "write", "ada": "write"}
    with story(tmp_path_factory.mktemp("story"), permissions=people) as made:
        made.hub.state.tokens[EVE] = "eve"
        model = made.model(FIX, FINISH)
        ran = hutch(
            made, "run", "Make slugs lower case.", "--repo", made.hub.url("acme/project"), "--model", model
        )
        assert ran.returncode == 0, ran.stderr
        with made.saved() as restore:
            yield made, restore


@pytest.fixture
def setup(first: tuple[Story, Callable[[], None]]) -> Story:
    made, restore = first
    restore()
    return made


def hutch(setup: Story, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(setup.place / "home"),
        "HUTCH_HOME": str(setup.place / "home"),
        "HUTCH_GITHUB__HOSTS": f"{HOST}:{setup.hub.port}",
        "HUTCH_GITHUB__UNIX_SOCKET": str(setup.hub.socket),
    }
    ran = run(
        [HUTCH, *words],
        cwd=setup.place,  # no repository: there `last` is the newest change of all
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=DEADLINE_S,
    )
    assert TOKEN not in ran.stdout + ran.stderr and EVE not in ran.stdout + ran.stderr
    return ran


def changes(setup: Story, *words: str) -> subprocess.CompletedProcess[str]:
    return hutch(setup, "changes", *words)


def refused(setup: Story, *words: str) -> str:
    ran = changes(setup, *words)
    assert (ran.returncode != 0, ran.stdout) == (True, ""), ran.stdout
    return ran.stderr


def shown(setup: Story) -> dict[str, Any]:
    return dict(json.loads(changes(setup, "show", "--json").stdout))


def repo(setup: Story) -> Repository:
    return setup.hub.repository("acme/project")


def test_it_is_listed_with_its_repository_read_and_merged(setup: Story) -> None:
    change = shown(setup)
    listed = changes(setup, "list").stdout
    assert "  open    acme/project#1  hutch/slugs-are-lower-case  Slugs are lower case\n" in listed
    patch = changes(setup, "diff").stdout
    assert "+    return text.lower()" in patch
    assert "Choose merge, squash or rebase" in refused(setup, "merge", "--strategy", "fast-forward")
    merged = changes(setup, "merge", change["id"][-6:], "--json")
    assert merged.returncode == 0, merged.stderr
    done = json.loads(merged.stdout)
    assert done["commit"] == repo(setup).tip("main") == shown(setup)["merged_commit"]
    assert git(repo(setup).path, "rev-parse", "main^2") == change["commit"]
    assert done["branch_deleted"] and repo(setup).branches() == ["main"]
    assert repo(setup).pulls[1]["merged"] and shown(setup)["state"] == "merged"
    assert "is merged already" in refused(setup, "close")


@pytest.mark.parametrize(
    ("allowed", "strategy", "parents"),
    [(("squash_merge",), None, 1), (("merge_commit", "rebase_merge"), "rebase", 1)],
    ids=["as the repository allows", "as was asked for"],
)
def test_the_merge_method_fits_the_repository(
    setup: Story, allowed: tuple[str, ...], strategy: str | None, parents: int
) -> None:
    repo(setup).methods = allowed
    assert "are not allowed" in refused(
        setup, "merge", "--strategy", "merge" if strategy is None else "squash"
    )
    assert changes(setup, "merge", *(("--strategy", strategy) if strategy else ())).returncode == 0
    told_of = git(repo(setup).path, "log", "-1", "--format=%P|%s", "main").split("|")
    assert (len(told_of[0].split()), told_of[1]) == (parents, f"Slugs are lower case ({allowed[-1]})")


def test_changes_requested_on_github_block_a_merge(setup: Story) -> None:
    eves = {"user": {"login": "eve"}, "state": "CHANGES_REQUESTED", "body": "No."}
    repo(setup).pulls[1]["reviews"].append(eves)
    said = refused(setup, "merge")
    assert "eve asked for changes" in said and "--force" in said
    assert not repo(setup).pulls[1]["merged"]
    forced = changes(setup, "merge", "--force")
    assert forced.returncode == 0 and "although eve asked for changes" in forced.stderr


def test_commits_pushed_later_are_not_merged_unseen(setup: Story, tmp_path: Path) -> None:
    change = shown(setup)
    place = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", "-b", change["branch"], str(repo(setup).path), str(place))
    made = commit(place, {"slug.py": "import os\n"})
    git(place, "push", "-q", "origin", "HEAD")
    said = refused(setup, "merge", "--force")
    assert f"it is at {made[:12]}" in said and repo(setup).tip("main") != made
    closed = changes(setup, "close")
    assert closed.returncode == 0 and "it has new commits" in closed.stderr
    assert repo(setup).tip(change["branch"]) == made


def test_a_conflict_is_reported_and_the_pull_request_stays_open(setup: Story, tmp_path: Path) -> None:
    place = tmp_path / "theirs"
    git(tmp_path, "clone", "-q", str(repo(setup).path), str(place))
    commit(place, {"slug.py": "def slug(text):\n    return text.upper()\n"})
    git(place, "push", "-q", "origin", "HEAD:main")
    assert "not mergeable" in refused(setup, "merge")
    assert shown(setup)["state"] == "open"


def test_closing_closes_the_pull_request_and_deletes_its_branch(setup: Story) -> None:
    ran = changes(setup, "close")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert repo(setup).pulls[1]["state"] == "closed" and repo(setup).branches() == ["main"]
    assert shown(setup)["state"] == "closed"


def test_a_pull_request_settled_on_github_is_settled_here(setup: Story) -> None:
    setup.hub.state.close(repo(setup), 1)
    assert "was closed on GitHub" in refused(setup, "merge")
    assert shown(setup)["state"] == "closed"


def test_showing_a_change_mirrors_a_close_on_github(setup: Story) -> None:
    setup.hub.state.close(repo(setup), 1)
    setup.hub.fault(r"GET .*/pulls/1$", 503)
    assert "state      open\n" in changes(setup, "show").stdout
    setup.hub.faults.clear()
    setup.hub.fault(r"GET .*/pulls/1$", 0, delay_s=10)  # it would say so, later than anybody waits
    assert "state      open\n" in changes(setup, "show").stdout
    setup.hub.faults.clear()
    assert "state      closed\n" in changes(setup, "show").stdout
    assert "  closed  " in changes(setup, "list", "--all").stdout


def test_showing_a_change_mirrors_a_merge_on_github(setup: Story) -> None:
    setup.hub.state.close(repo(setup), 1, merged=True)
    repo(setup).pulls[1]["merge_commit"] = "a" * 40
    change = shown(setup)
    assert (change["state"], change["merged_commit"]) == ("merged", "a" * 40)


def test_a_merge_whose_response_was_lost_is_recorded(setup: Story) -> None:
    setup.hub.fault(r"PUT .*/merge", 502, after=True, times=1)
    merged = changes(setup, "merge", "--json")
    assert merged.returncode == 0, merged.stderr
    assert json.loads(merged.stdout)["commit"] == repo(setup).tip("main")


def test_a_comment_is_posted_on_its_line(setup: Story) -> None:
    setup.keep(value=EVE)
    said = changes(
        setup, "comment", "last", "slug.py:2", "Why, @ada? <!-- hutch-review x -->", "--severity", "should"
    )
    assert said.returncode == 0, said.stderr
    (posted,) = repo(setup).issues[1]["comments"].values()
    assert (posted["path"], posted["line"], posted["side"]) == ("slug.py", 2, "RIGHT")
    assert posted["body"].startswith("**should**: Why, @ada? ") and "<!-- hutch-review" not in posted["body"]
    assert posted["commit_id"] == shown(setup)["commit"]
    assert said.stdout.strip() in changes(setup, "comments").stdout
    assert "does not show line 900. It shows 1 to 2" in refused(setup, "comment", "last", "slug.py:900", "x")
    assert "does not touch 'README.md'" in refused(setup, "comment", "last", "README.md:1", "x")
    old = changes(setup, "comment", "last", "slug.py:2", "Gone.", "--old")
    assert old.returncode == 0, old.stderr
    assert [each["side"] for each in repo(setup).issues[1]["comments"].values()] == ["RIGHT", "LEFT"]


def test_a_verdict_is_posted_as_a_review(setup: Story) -> None:
    for word in (("approve",), ("request-changes", "last", "--body", "x")):
        said = refused(setup, *word)
        assert "does not let users review their own pull requests" in said and "hutch-bot" in said
    assert changes(setup, "comments", "--json").stdout == ""
    setup.keep(value=EVE)
    asked = changes(setup, "request-changes", "last", "--body", "Also strip it.")
    assert asked.returncode == 0, asked.stderr
    approved = changes(setup, "approve", "--body", "Good.", "--json")
    first, second = repo(setup).pulls[1]["reviews"]
    assert [each["event"] for each in (first, second)] == ["REQUEST_CHANGES", "APPROVE"]
    assert first["body"].startswith("Also strip it.") and first["html_url"] in asked.stdout
    assert second["commit_id"] == shown(setup)["commit"]
    assert json.loads(approved.stdout)["url"] == second["html_url"]


def test_a_verdict_that_github_refuses_is_not_stored(setup: Story) -> None:
    setup.keep(value=EVE)
    setup.hub.fault(r"POST .*/reviews", 503)
    assert "failed: " in refused(setup, "approve")
    assert changes(setup, "comments", "--json").stdout == ""


def test_a_missing_pull_request_is_reported(setup: Story) -> None:
    del repo(setup).pulls[1]
    for word in ("diff", "merge", "close"):
        said = refused(setup, word)
        assert "There is no pull request #1 in acme/project" in said, said


def test_the_printed_address_names_a_change(setup: Story) -> None:
    change = shown(setup)
    assert str(setup.hub.port) not in change["web_url"]  # as a forge behind another port may call itself
    assert change["web_url"] in changes(setup, "show").stdout
    assert changes(setup, "diff", change["web_url"]).stdout == changes(setup, "diff").stdout
    say = call("comment", path="slug.py", line=2, severity="could", body="Fine.")
    model = setup.model(say, call("finish", title="Good.", summary=""), name="r.json")
    for number, name in enumerate((change["web_url"], change["id"][-8:])):
        again = ("--again",) if number else ()
        ran = hutch(setup, "review", name, "--model", model, *again)
        assert ran.returncode == 0, ran.stderr
        assert len(repo(setup).pulls[1]["reviews"]) == number + 1
    elsewhere = hutch(setup, "review", f"https://{HOST}/acme/other/pull/3", "--model", model)
    assert f"{HOST}:{setup.hub.port}: use an address with that port" in elsewhere.stderr


@pytest.mark.parametrize(
    "spelled",
    [
        pytest.param("as it is printed", marks=pytest.mark.soak),
        pytest.param("by where it was pushed", marks=pytest.mark.soak),
        "otherwise",
    ],
)
def test_a_blocker_found_by_address_blocks_the_merge(setup: Story, spelled: str) -> None:
    change = shown(setup)
    there = setup.hub.url("acme/project").removesuffix(".git") + "/pull/1"
    urls = {"as it is printed": change["web_url"], "by where it was pushed": there}
    say = call("comment", path="slug.py", line=2, severity="blocker", body="Loses letters.")
    model = ("--model", setup.model(say, call("finish", title="Not yet.", summary=""), name="r.json"))
    url = urls.get(spelled, there.replace("acme/project", "Acme/Project") + "/files")
    ran = hutch(setup, "review", url, *model)
    assert ran.returncode == 3, ran.stdout + ran.stderr
    said = changes(setup, "comments", change["id"]).stdout
    assert "changes requested by hutch" in said and "slug.py:2  blocker" in said
    assert "the agent's review asked for changes" in refused(setup, "merge", change["id"])
    again = hutch(setup, "review", change["id"], *model)
    assert (again.returncode, "Already reviewed at " in again.stdout) == (3, True), again.stdout
    fine = ("--model", setup.model(call("finish", title="Good.", summary=""), name="f.json"))
    assert hutch(setup, "review", url, "--again", *fine).returncode == 0
    assert changes(setup, "merge", change["id"]).returncode == 0


def test_without_a_token_the_message_names_the_secret(setup: Story) -> None:
    setup.forget()
    assert "hutch config set-secret github_enterprise_token" in refused(setup, "merge")
