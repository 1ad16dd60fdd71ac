"""Events as lines for people."""

from typing import Any

import pytest

from hutch.cli.render.delivery import NOTHING
from hutch.cli.render.transcript import Line, OpenQuestion, Piece, Transcript, arguments

RUN = {"run_id": "run_1"}


class Told:
    """A transcript to which events are told, numbered by themselves."""

    def __init__(self) -> None:
        self.transcript = Transcript(me="usr_1", names={"usr_2": "bob"})
        self.seq = 0

    def event(self, type_: str, **fields: Any) -> list[Line | Piece]:
        self.seq += 1
        return self.transcript.entry({"seq": self.seq, "event": {"type": type_, **fields}})

    def delta(self, text: str, kind: str = "text", turn: int = 1) -> list[Line | Piece]:
        return self.transcript.delta({"run_id": "run_1", "turn": turn, "kind": kind, "text": text})


def test_a_reply_is_shown_as_it_comes_and_not_again_as_a_whole() -> None:
    told = Told()
    told.event("run.started", **RUN)
    assert told.delta("It ") == [Piece("It ")]
    assert told.event("model.replied", text="It works.") == [Piece("works.", end=True)]


def test_what_came_before_a_cut_is_not_shown_twice_and_what_came_after_is_not_lost() -> None:
    told = Told()
    told.event("run.started", **RUN)
    told.delta("One ")
    told.transcript.cut()
    assert told.delta("three ") == []
    assert told.event("model.replied", text="One two three four") == [Piece("two three four", end=True)]
    assert told.delta("Next", turn=2) == [Piece("Next")]


def test_a_reply_that_had_begun_before_anybody_came_is_shown_when_it_is_whole() -> None:
    told = Told()
    told.transcript.live_after = 1
    told.event("run.started", **RUN)
    assert told.delta("end of it") == []
    assert told.event("model.replied", text="The end of it") == [Piece("The end of it", end=True)]


def test_pieces_that_were_left_out_come_with_the_whole() -> None:
    told = Told()
    told.event("run.started", **RUN)
    told.delta("One ")
    told.delta("three")
    assert told.event("model.replied", text="One two three")[-1] == Piece("One two three", end=True)


def test_a_model_that_broke_off_begins_anew() -> None:
    told = Told()
    told.event("run.started", **RUN)
    told.delta("Wro")
    assert told.delta("", kind="again") == [Line("the model broke off; it is asked again", "dim")]
    told.delta("Right")
    assert told.event("model.replied", text="Right.") == [Piece(".", end=True)]


def test_who_waits_for_what() -> None:
    told = Told()
    told.event(
        "approval.requested", call_id="c1", tool="bash", summary="git push", rule="ask", covers=["bash git"]
    )
    told.event("question.asked", call_id="c2", text="Why?")
    assert told.transcript.state == "waiting"
    assert list(told.transcript.waiting.values()) == [
        OpenQuestion("approval", "c1", "bash: git push", ("bash git",)),
        OpenQuestion("question", "c2", "Why?"),
    ]
    told.event("approval.answered", call_id="c1", allowed=True)
    assert list(told.transcript.waiting) == ["c2"]
    told.event("run.ended", outcome="cancelled")
    assert told.transcript.waiting == {}


def test_people_are_called_by_their_names() -> None:
    told = Told()
    assert told.event("message.sent", author="user", text="Hi", by="usr_1") == [Line("Hi", "you", "you: ")]
    assert told.event("message.sent", author="user", text="Hi", by="usr_2") == [Line("Hi", "you", "bob: ")]
    assert told.event("message.sent", author="user", text="Hi", by="usr_3") == [Line("Hi", "you", "usr_3: ")]


def test_a_long_result_is_cut_and_says_so() -> None:
    told = Told()
    lines = told.event("tool.returned", ok=False, text="\n".join("x" * 300 for _ in range(20)))
    assert len(lines) == 13
    assert lines[0] == Line(f"  ! {'x' * 160}…", "dim")
    assert lines[-1] == Line("  … 8 more lines", "dim")


@pytest.mark.parametrize(
    "type_", ["", "run.ended", "approval.requested", "tests.run", "model.replied", "a.new.one"]
)
def test_an_event_that_is_not_as_expected_breaks_nothing(type_: str) -> None:
    Told().event(type_)


def test_an_erased_event_is_told_as_such() -> None:
    assert Told().event("model.replied", erased=True) == [Line("(model.replied: erased)", "dim")]


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


def test_what_is_asked_for_approval_drives_no_terminal() -> None:
    told = Told()
    evil = "\x1b[2J\nforged"
    shown = told.event("approval.requested", call_id="c1", tool=evil, summary=evil, rule=evil, covers=[evil])
    asked = told.transcript.waiting["c1"]
    lines = [line.text for line in shown if isinstance(line, Line)]
    assert all(text.isprintable() for text in (*lines, asked.text, *asked.covers))


def test_what_became_of_a_delivery_is_told_with_the_command_that_repeats_it() -> None:
    told = Told()
    told.event("run.started", **RUN, deliver=True)
    assert told.event("delivery.ended", **RUN, outcome="nothing") == [Line(NOTHING)]
    failed = {**RUN, "outcome": "failed", "reason": "No way."}
    assert told.event("delivery.ended", **failed) == [
        Line("No way.", "bad", "not delivered: "),
        Line("hutch changes deliver run_1", lead="try again: "),
    ]
    assert told.event("delivery.ended", **failed, failing=True)[1:] == [
        Line("hutch changes propose run_1", lead="all the same: ")
    ]
    assert told.event("delivery.requested", **RUN, by="usr_2", failing=True) == [
        Line("bob wants it delivered, though its tests fail", "dim")
    ]
    told.event("run.started", **RUN, deliver=False)  # a review: there is nothing to deliver once more
    assert told.event("delivery.ended", **failed) == [Line("No way.", "bad", "not delivered: ")]


def test_why_tests_did_not_run_stands_in_place_of_counts() -> None:
    ran = {"command": "pytest", "ok": False, "passed": 0, "failed": 0, "reason": "No module named pytest."}
    assert Told().event("tests.run", **ran) == [Line("No module named pytest.  (pytest)", "bad", "tests: ")]
