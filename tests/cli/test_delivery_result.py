"""The commands that are shown after a delivery work for its repository."""

from typing import Any

import pytest

from hutch.cli.render.delivery_result import next_steps, page_of


def change(url: str, base: str = "main", branch: str = "hutch/fix") -> dict[str, Any]:
    return {"change_id": "chg_1", "branch": branch, "base": base, "url": url}


REVIEW, MERGE = ("review it", "hutch changes diff chg_1"), ("merge it", "hutch changes merge chg_1")
FETCHED = ("merge it", "git merge FETCH_HEAD")


@pytest.mark.parametrize(
    ("proposed", "steps"),
    [
        (change("/home/me/project#hutch/fix"), [REVIEW, MERGE]),
        (change("https://github.com/me/project/pull/7"), [REVIEW, MERGE]),
        (change("/home/me/project#hutch/fix", base="HEAD"), [REVIEW]),
        (
            change("https://git.example.com/project.git#hutch/fix"),
            [
                (
                    "review it",
                    "git fetch https://git.example.com/project.git hutch/fix && git diff HEAD...FETCH_HEAD",
                ),
                FETCHED,
            ],
        ),
        (
            change("git@example.com:a b.git#fix;ls", branch="fix;ls"),
            [
                ("review it", "git fetch 'git@example.com:a b.git' 'fix;ls' && git diff HEAD...FETCH_HEAD"),
                FETCHED,
            ],
        ),
    ],
)
def test_the_next_steps_fit_the_repository(proposed: dict[str, Any], steps: list[tuple[str, str]]) -> None:
    assert next_steps(proposed) == steps


def test_failing_tests_need_force() -> None:
    assert next_steps(change("/p#hutch/fix"), force=True)[1] == (
        "merge it",
        "hutch changes merge chg_1 --force",
    )


def test_only_a_pull_request_has_a_page() -> None:
    assert page_of(change("https://github.com/me/project/pull/7")) == "https://github.com/me/project/pull/7"
    assert page_of(change("https://git.example.com/project.git#hutch/fix")) == ""
    assert page_of(change("/home/me/project#hutch/fix")) == ""
