"""The meaning of a typed line depends on the open question."""

from typing import Any

import pytest

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.attached_conversation import EARLIER_LINES, Conversation
from hutch.cli.render.transcript import Line
from hutch.cli.run_wait_and_output import AwaitedRun
from hutch.cli.screens.typed_line_parser import TypedInput
from hutch.cli.server_address_and_token import Address
from hutch.cli.session_client import ServedSessions
from hutch.cli.session_event_stream import Update

SESSION: dict[str, Any] = {"id": "ses_01jd2m4c9k7w6t0q8n5x3vbaeh", "state": "running", "head": None}


def new_conversation(head: int = 0, after: int | None = None) -> Conversation:
    session = {**SESSION, "head": {"seq": head}}
    return Conversation(
        ServedSessions(Client(lambda: Address("http://127.0.0.1:9", "", "login"))), session, after=after
    )


def after_event(one: Conversation, seq: int, type_: str, **fields: Any) -> list[Any]:
    return one._take(Update(entry={"seq": seq, "event": {"type": type_, **fields}}))


def conversation_with_question(**fields: Any) -> Conversation:
    one = new_conversation()
    after_event(
        one, 1, "approval.requested", call_id="c1", tool="bash", summary="git push", rule="ask bash", **fields
    )
    return one


def test_the_scope_of_an_approval_is_shown() -> None:
    one = conversation_with_question(covers=["bash git push"])
    assert one.label == "[y]es [s]ession always [n]o > "
    assert one.status.startswith("session and always allow: bash git push")


def test_a_single_approval_offers_no_wider_scope() -> None:
    assert conversation_with_question().label == "[y]es [n]o > "
    for word in ("always", "s"):
        why = f"'{word}' is no answer to this. Answer yes or no; no REASON denies it with a reason."
        assert conversation_with_question().line(word) == TypedInput("unknown", {"why": why})


@pytest.mark.parametrize(
    ("line", "scope"),
    [("y", "once"), ("yes", "once"), ("s", "session"), (" Always ", "always")],
)
def test_a_whole_word_allows(line: str, scope: str) -> None:
    one = conversation_with_question(covers=["bash git push"])
    assert one.line(line) == TypedInput("approve", {"call_id": "c1", "scope": scope})


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("n", ""),
        ("no", ""),
        ("no, stop it", "stop it"),
        ("n /etc is not yours", "/etc is not yours"),
    ],
)
def test_a_no_denies_with_the_rest_of_the_line_as_the_reason(line: str, reason: str) -> None:
    one = conversation_with_question(covers=["bash git push"])
    assert one.line(line) == TypedInput("deny", {"call_id": "c1", "reason": reason})


@pytest.mark.parametrize(
    "line", ["a", "alwasy", "absolutely not", "yes, but first look", "//etc is not yours"]
)
def test_any_other_line_asks_again_and_names_the_answers(line: str) -> None:
    one = conversation_with_question(covers=["bash git push"])
    typed = one.line(line)
    assert typed is not None and typed.kind == "unknown"
    assert "Answer yes, session, always or no" in typed.fields["why"]
    assert one.question is not None


def test_an_empty_line_and_a_command_leave_the_question_open() -> None:
    one = conversation_with_question()
    assert one.line("   ") is None
    assert one.line("/diff") == TypedInput("diff")
    assert one.question is not None


def test_a_question_is_answered_by_what_is_typed_and_commands_stay_commands() -> None:
    one = new_conversation()
    after_event(one, 1, "question.asked", call_id="q1", text="Why?")
    assert one.line("because") == TypedInput("answer", {"call_id": "q1", "text": "because"})
    assert one.line("/cancel") == TypedInput("cancel")
    after_event(one, 2, "question.answered", call_id="q1", text="because")
    assert one.line("because") == TypedInput("message", {"text": "because"})


def test_another_user_may_have_answered() -> None:
    one = conversation_with_question()
    after_event(one, 2, "approval.answered", call_id="c1", allowed=True)
    assert one.line("y") == TypedInput("message", {"text": "y"})


def test_the_last_lines_of_the_history_are_shown_together() -> None:
    many = EARLIER_LINES + 50
    one = new_conversation(head=many)
    for seq in range(1, many):
        assert after_event(one, seq, "session.paused") == []
    shown = after_event(one, many, "session.paused")
    assert len(shown) == EARLIER_LINES + 1
    assert shown[0].text.startswith("… 50 earlier lines")
    assert after_event(one, many + 1, "session.paused") == [Line("paused by you", "dim")]


def test_a_question_answered_in_the_history_is_not_open() -> None:
    one = new_conversation(head=3)
    after_event(one, 1, "approval.requested", call_id="c1")
    assert one.question is None
    after_event(one, 2, "approval.answered", call_id="c1")
    after_event(one, 3, "run.ended", outcome="done")
    assert one.question is None


def test_the_awaited_run_gives_the_exit_code() -> None:
    first = AwaitedRun()
    assert first.ended({"type": "run.queued", "run_id": "r1"}) is None
    assert first.ended({"type": "run.ended", "run_id": "r0", "outcome": "failed"}) is None
    assert first.ended({"type": "run.ended", "run_id": "r1", "outcome": "done"}) == exit_codes.OK
    prompt = AwaitedRun(input=4)
    for event in (
        {"type": "run.queued", "run_id": "r1"},
        {"type": "run.ended", "run_id": "r1", "outcome": "done"},
        {"type": "input.processed", "input": 4, "kind": "prompt"},
        {"type": "run.queued", "run_id": "r2"},
    ):
        assert prompt.ended(event) is None
    assert prompt.ended({"type": "run.ended", "run_id": "r2", "outcome": "failed"}) == exit_codes.UNAVAILABLE
    awaited = AwaitedRun(input=5)
    assert awaited.ended({"type": "message.sent", "input": 5}) is None
    assert awaited.ended({"type": "run.ended", "run_id": "r3", "outcome": "done"}) == exit_codes.OK
    assert AwaitedRun(input=6).ended({"type": "session.ended"}) == exit_codes.INTERRUPTED
