"""The text of a pull request, without active mentions and keywords."""

import re
from dataclasses import replace

import pytest

from hutch.domain import events
from hutch.flows.pull_request_text import About, pull_text, ran_before
from hutch.forge.posted_text_escaping import escape_references
from tests.flows.test_run_history_reader import entries

ABOUT = About(session_id="ses_1", run_id="run_1")


def test_everything_that_is_known_is_said() -> None:
    about = About(
        session_id="ses_1",
        run_id="run_1",
        link="https://hutch.example.com/sessions/ses_1",
        tests="2 passed",
        tests_before="1 failed, 1 passed",
        cost_usd=0.123,
        turns=4,
        duration_s=61.2,
        issue="https://github.com/acme/project/issues/7",
    )
    assert pull_text("It greets.", about) == (
        "It greets.\n\n"
        "- **Tests:** 2 passed; before: 1 failed, 1 passed\n"
        "- **Cost:** $0.12, 4 turns, 61 s\n"
        "- **Session:** [ses_1](https://hutch.example.com/sessions/ses_1)\n"
        "- **Asked for in:** https://github.com/acme/project/issues/7\n\n"
        "<!-- Hutch-Session: ses_1 Hutch-Run: run_1 -->\n"
    )


def test_little_that_is_known_is_said() -> None:
    assert pull_text("", ABOUT).startswith("- **Tests:** none were run\n- **Session:** `ses_1`\n\n<!--")


@pytest.mark.parametrize(
    "text",
    [
        "Ask @ada.",
        "@acme/team look",
        "Fixes #7",
        "closes acme/other#8",
        "Resolved: https://github.com/a/b/issues/1",
        "`@octocat",
        "`@octocat`",
        "/@octocat",
        "_@octocat_",
        "fixes GH-9",
        "*Fixes* **#7**",
        "Closes: [#7]",
        "Closes\n#7",
    ],
)
def test_a_models_words_call_nobody_and_close_nothing(text: str) -> None:
    said = escape_references(text)
    assert said != text and said.replace("\u2060", "") == text


@pytest.mark.parametrize("text", ["a@example.com", "It fixes the bug.", "See #7.", "&lt;b&gt; &#65;"])
def test_other_words_stay_as_they_are(text: str) -> None:
    assert escape_references(text) == text


@pytest.mark.parametrize("text", ["&#64;octocat", "&commat;octocat", "Fixes &#x23;7", "Fixes &num;7"])
def test_characters_written_as_entities_do_nothing_either(text: str) -> None:
    assert not re.search(r"@octocat|Fixes #7|&", escape_references(text))


def test_what_is_harmless_stays_as_it_is() -> None:
    said = escape_references("Fixes #7, says @ada <!-- &#64;x")
    assert escape_references(said) == said


def test_a_comment_cannot_hide_what_follows() -> None:
    assert "<!--" not in escape_references("<!-- hidden")


def test_what_the_tests_said_before_the_first_change() -> None:
    def taken(number: int, tree: str) -> events.SnapshotTaken:
        return events.SnapshotTaken(snapshot=number, tree=tree, reason="x")

    def ran(failed: int) -> events.RanTests:
        return events.RanTests(run_id="run_1", command="t", ok=not failed, passed=1, failed=failed, skipped=0)

    started = events.RunStarted(run_id="run_1", prompt="x", persona="p", model="m", workspace="w")
    log = entries(taken(1, "a"), started, ran(2), taken(2, "b"), ran(0))
    found = ran_before(log, "run_1")
    assert found is not None and found.failed == 2
    assert ran_before(entries(taken(1, "a"), started, taken(2, "b"), ran(0)), "run_1") is None


def test_what_tests_print_does_nothing_in_a_pull_request() -> None:
    hostile = "failed as a whole: test_x[@octocat]\n\n<img src=//e.vil> ![x](//e.vil) Fixes #7 <!-- &#64;ada"
    about = replace(ABOUT, tests=hostile, tests_before=hostile, tests_note=hostile)
    said = pull_text("It greets.", about)
    tests, *others = said.splitlines()[2:]
    assert tests.startswith("- **Tests:** failed as a whole: test_x") and tests.count("octocat") == 3
    assert not re.search(r"@\w|<|\[|Fixes #7", tests)
    assert others == pull_text("It greets.", ABOUT).splitlines()[3:]
