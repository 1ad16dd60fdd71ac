"""Events as lines for people."""

from typing import Any

import pytest

from hutch.cli.render.delivery_result import NOTHING
from hutch.cli.render.transcript import Line, OpenQuestion, ReplyPart, Transcript, arguments

RUN = {"run_id": "run_1"}


class NumberedTranscript:
    """A transcript that numbers the events it is given."""

    def __init__(self) -> None:
        self.transcript = Transcript(me="usr_1", names={"usr_2": "bob"})
        self.seq = 0

    def event(self, type_: str, **fields: Any) -> list[Line | ReplyPart]:
        self.seq += 1
        return self.transcript.entry({"seq": self.seq, "event": {"type": type_, **fields}})

    def delta(self, text: str, kind: str = "text", turn: int = 1) -> list[Line | ReplyPart]:
        return self.transcript.delta({"run_id": "run_1", "turn": turn, "kind": kind, "text": text})


def test_a_streamed_reply_is_not_repeated() -> None:
    result = NumberedTranscript()
    result.event("run.started", **RUN)
    assert result.delta("It ") == [ReplyPart("It ")]
    assert result.event("model.replied", text="It works.") == [ReplyPart("works.", end=True)]


def test_a_broken_connection_repeats_and_loses_nothing() -> None:
    result = NumberedTranscript()
    result.event("run.started", **RUN)
    result.delta("One ")
    result.transcript.cut()
    assert result.delta("three ") == []
    assert result.event("model.replied", text="One two three four") == [ReplyPart("two three four", end=True)]
    assert result.delta("Next", turn=2) == [ReplyPart("Next")]


def test_a_reply_that_began_earlier_is_shown_when_complete() -> None:
    result = NumberedTranscript()
    result.transcript.live_after = 1
    result.event("run.started", **RUN)
    assert result.delta("end of it") == []
    assert result.event("model.replied", text="The end of it") == [ReplyPart("The end of it", end=True)]


def test_missing_parts_are_shown_with_the_whole_reply() -> None:
    result = NumberedTranscript()
    result.event("run.started", **RUN)
    result.delta("One ")
    result.delta("three")
    assert result.event("model.replied", text="One two three")[-1] == ReplyPart("One two three", end=True)


def test_a_retried_reply_starts_again() -> None:
    result = NumberedTranscript()
    result.event("run.started", **RUN)
    result.delta("Wro")
    why = "x:y is overloaded (529); retrying in 8 s (attempt 3 of 6)."
    assert result.delta(why, kind="again") == [Line(f"the reply was interrupted: {why}", "dim")]
    assert result.delta(why, kind="again") == [Line(why, "dim")]
    assert result.transcript.doing == "retrying"
    result.delta("Right")
    assert result.event("model.replied", text="Right.") == [ReplyPart(".", end=True)]


def test_open_questions_are_tracked() -> None:
    result = NumberedTranscript()
    result.event(
        "approval.requested", call_id="c1", tool="bash", summary="git push", rule="ask", covers=["bash git"]
    )
    result.event("question.asked", call_id="c2", text="Why?")
    assert result.transcript.state == "waiting"
    assert list(result.transcript.waiting.values()) == [
        OpenQuestion("approval", "c1", "bash: git push", ("bash git",)),
        OpenQuestion("question", "c2", "Why?"),
    ]
    result.event("approval.answered", call_id="c1", allowed=True)
    assert list(result.transcript.waiting) == ["c2"]
    result.event("run.ended", outcome="cancelled")
    assert result.transcript.waiting == {}


def test_users_are_shown_by_name() -> None:
    result = NumberedTranscript()
    assert result.event("message.sent", author="user", text="Hi", by="usr_1") == [Line("Hi", "you", "you: ")]
    assert result.event("message.sent", author="user", text="Hi", by="usr_2") == [Line("Hi", "you", "bob: ")]
    assert result.event("message.sent", author="user", text="Hi", by="usr_3") == [
        Line("Hi", "you", "usr_3: ")
    ]


def test_changes_of_files_name_their_author() -> None:
    result = NumberedTranscript()
    changed = {"path": "a.py", "kind": "modified"}
    assert result.event("file.changed", **changed, by="usr_2") == [Line("bob modified a.py", "dim")]
    possible = result.event("file.changed", **changed, possible_authors=["usr_2", "agent"])
    assert possible == [Line("bob or agent modified a.py", "dim")]
    assert result.event("file.changed", **changed) == [Line("someone modified a.py", "dim")]
    assert result.event("file.changed", **changed, by="agent") == []
    many = result.event("files.changed", created=2, directories={"build": 2}, by="usr_2")
    assert many == [Line("bob: 2 created files (build: 2)", "dim")]


def test_commands_of_terminals_are_shown_when_they_have_ended() -> None:
    result = NumberedTranscript()
    ran = {"terminal": "2", "command": "make\x1b[31m", "by": "usr_2"}
    assert result.event("command.ended", **ran, exit_code=2) == [
        Line("bob ran in terminal 2: make\\x1b[31m  (exit code 2)", "dim")
    ]
    assert result.event("command.ended", shell="main", command="make", exit_code=0) == []


def test_a_long_result_is_cut_and_says_so() -> None:
    result = NumberedTranscript()
    lines = result.event("tool.returned", ok=False, text="\n".join("x" * 300 for _ in range(20)))
    assert len(lines) == 13
    assert lines[0] == Line(f"  ! {'x' * 160}…", "dim")
    assert lines[-1] == Line("  … 8 more lines", "dim")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        (
            {"source": "/src/app", "commit": "0123456789abcdef"},
            "the workspace of /src/app at 0123456789ab is ready",
        ),
        ({"source": "/src/app", "commit": ""}, "the workspace of /src/app is ready"),
        ({}, "the workspace is ready"),
    ],
)
def test_a_commit_is_named_only_if_there_is_one(fields: dict[str, str], text: str) -> None:
    assert NumberedTranscript().event("session.prepared", **fields) == [Line(text, "dim")]


def test_a_test_command_that_reports_no_counts_has_passed() -> None:
    shown = NumberedTranscript().event("tests.run", ok=True, command="make check", cause="tool", passed=0)
    assert shown == [Line("passed, without counts  (make check)", "good", "tests: ")]


def test_a_warning_is_shown_to_its_end() -> None:
    names = ", ".join(f"vendor/{i}" for i in range(60))
    message = f"warning: Submodules are empty: {names}. Fetch them first."
    assert NumberedTranscript().event("step.reached", message=message) == [Line(message, "dim")]


@pytest.mark.parametrize(
    "type_", ["", "run.ended", "approval.requested", "tests.run", "model.replied", "a.new.one"]
)
def test_an_unexpected_event_breaks_nothing(type_: str) -> None:
    NumberedTranscript().event(type_)


def test_an_erased_event_is_shown_as_erased() -> None:
    assert NumberedTranscript().event("model.replied", erased=True) == [
        Line("(model.replied: erased)", "dim")
    ]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ('{"command": "ls\\n-la"}', "ls ⏎ -la"),
        ('{"path": "a", "all": true}', "path=a all=true"),
        ("not json", "not json"),
        ("", ""),
        ('{"a": "\\u001b[31m"}', "\\x1b[31m"),
    ],
)
def test_arguments_in_a_line(given: str, line: str) -> None:
    assert arguments(given) == line


def test_an_approval_cannot_control_the_terminal() -> None:
    result = NumberedTranscript()
    evil = "\x1b[2J\nforged"
    shown = result.event(
        "approval.requested", call_id="c1", tool=evil, summary=evil, rule=evil, covers=[evil]
    )
    asked = result.transcript.waiting["c1"]
    lines = [line.text for line in shown if isinstance(line, Line)]
    assert all(text.isprintable() for text in (*lines, asked.text, *asked.covers))


def test_a_delivery_is_shown_with_the_command_that_repeats_it() -> None:
    result = NumberedTranscript()
    result.event("run.started", **RUN, deliver=True)
    assert result.event("delivery.ended", **RUN, outcome="nothing") == [Line(NOTHING)]
    failed = {**RUN, "outcome": "failed", "reason": "No way."}
    assert result.event("delivery.ended", **failed) == [
        Line("No way.", "bad", "not delivered: "),
        Line("hutch changes deliver run_1", lead="try again: "),
    ]
    assert result.event("delivery.ended", **failed, failing=True)[1:] == [
        Line("hutch changes propose run_1", lead="deliver anyway: ")
    ]
    assert result.event("delivery.requested", **RUN, by="usr_2", failing=True) == [
        Line("bob requested delivery anyway", "dim")
    ]
    result.event("run.started", **RUN, deliver=False)  # a review: there is nothing to deliver once more
    assert result.event("delivery.ended", **failed) == [Line("No way.", "bad", "not delivered: ")]


def test_the_reason_replaces_the_counts_of_tests_that_did_not_run() -> None:
    ran = {"command": "pytest", "ok": False, "passed": 0, "failed": 0, "reason": "No module named pytest."}
    assert NumberedTranscript().event("tests.run", **ran) == [
        Line("No module named pytest.  (pytest)", "bad", "tests: ")
    ]


def test_tests_of_a_user_are_shown_with_what_changed_and_what_failed() -> None:
    transcript = NumberedTranscript()
    about = {"command": "pytest", "cause": "request", "by": "usr_1"}
    (started,) = transcript.event("tests.started", **about)
    assert isinstance(started, Line) and started.text.endswith("runs tests: pytest")
    case = {"name": "a\x1b[2J", "outcome": "failed", "file": "a.py", "line": 3}
    counts = {"ok": False, "passed": 2, "failed": 1, "compared_with": "tst_1", "broke": 1, "unchanged": 2}
    assert transcript.event("tests.run", **about, **counts, cases=[case]) == [
        Line("2 passed, 1 failed; broke 1, 2 unchanged since the last run  (pytest)", "bad", "tests: "),
        Line("  FAILED a\\x1b[2J at a.py:3", "bad"),
    ]
    # The result of the agent's tool shows its failures itself.
    assert transcript.event("tests.started", command="pytest", cause="tool") == []
    assert len(transcript.event("tests.run", **{**about, "cause": "tool"}, **counts, cases=[case])) == 1
