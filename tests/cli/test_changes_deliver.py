"""`hutch run` on GitHub, and `hutch changes deliver` after GitHub was down."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from tests.forge.github_server import HOST
from tests.forked_command import HUTCH, run
from tests.stories.github_story import FINISH, FIX, TOKEN, Story, story


@pytest.fixture
def setup(tmp_path: Path) -> Iterator[Story]:
    with story(tmp_path) as made:
        yield made


def hutch(setup: Story, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(setup.place / "home"),
        "HUTCH_HOME": str(setup.place / "home"),
        "HUTCH_GITHUB__HOSTS": f"{HOST}:{setup.hub.port}",
        "HUTCH_GITHUB__UNIX_SOCKET": str(setup.hub.socket),
    }
    return run(
        [HUTCH, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.long
def test_a_run_opens_a_pull_request_and_retries_after_an_outage(setup: Story) -> None:
    fault = setup.hub.fault("PullRequestCreate|GET /repos/acme/project$", 503)
    model = setup.model(FIX, FINISH)
    words = ("--repo", setup.hub.url("acme/project"), "--model", model)
    ran = hutch(setup, "run", "Make slugs lower case.", *words)
    assert ran.returncode == exit_codes.UNAVAILABLE and "\nnot delivered: " in ran.stdout
    assert setup.pulls() == {} and TOKEN not in ran.stdout + ran.stderr
    fault.times = 0
    again = hutch(setup, "changes", "deliver", "last", "--json")
    assert again.returncode == 0, again.stderr
    (change,) = map(json.loads, hutch(setup, "changes", "list", "--json").stdout.splitlines())
    assert json.loads(again.stdout)["delivered"]["change_id"] == change["id"]
    (pull,) = setup.pulls().values()
    assert (change["forge"], change["number"], change["branch"]) == ("github", 1, pull["branch"])
    assert change["web_url"] == "https://127.0.0.1/acme/project/pull/1"
    assert "**Session:**" in pull["body"] and "As they should be" in pull["body"]
    shown = hutch(setup, "changes", "deliver", "last")
    steps = [f"review it: hutch changes diff {change['id']}", f"merge it: hutch changes merge {change['id']}"]
    assert shown.stdout.splitlines()[1:] == [change["web_url"], *steps]


def test_the_address_of_the_pull_request_is_printed(setup: Story) -> None:
    words = ("--repo", setup.hub.url("acme/project"), "--model", setup.model(FIX, FINISH))
    ran = hutch(setup, "run", "Make slugs lower case.", *words)
    assert ran.returncode == 0, ran.stderr
    assert "\nhttps://127.0.0.1/acme/project/pull/1\n" in ran.stdout
    assert "review it: hutch changes diff chg_" in ran.stdout


def test_an_impossible_delivery_is_reported_before_the_model_runs(setup: Story) -> None:
    setup.forget()
    words = ("--repo", setup.hub.url("acme/project"), "--model", setup.model(FIX, FINISH))
    ran = hutch(setup, "run", "Make slugs lower case.", *words)
    assert ran.returncode != 0 and "write_file" not in ran.stdout
    for each in ("needs a token, and none is set. Set", "set-secret github_enterprise_token", "--no-pr"):
        assert each in " ".join(ran.stderr.split())
    assert "private" not in ran.stderr
    without = hutch(setup, "run", "Make slugs lower case.", *words, "--no-pr")
    assert without.returncode == 0, without.stderr
    assert setup.pulls() == {}
