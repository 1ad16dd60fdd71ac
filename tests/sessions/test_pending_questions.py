"""Answers find their question, and no other."""

import asyncio
from collections.abc import Sequence

import pytest

from hutch.agent.tool_call_permission_decision import Answer
from hutch.domain.events import ApprovalRequested, Event
from hutch.domain.ids import new_session_id
from hutch.domain.inputs import Answer as AnswerInput
from hutch.domain.inputs import Approve, Deny
from hutch.domain.session import SessionInput
from hutch.sessions.pending_questions import Waits

pytestmark = pytest.mark.anyio


def waits() -> Waits:
    async def append(events: Sequence[Event]) -> None:
        del events

    async def changed() -> None: ...

    async def taken(given: SessionInput) -> None:
        del given

    return Waits(append, changed, taken)


def given(seq: int) -> SessionInput:
    return SessionInput(session_id=new_session_id(), seq=seq, by="usr_ada", at_ms=0, body="{}")


def question(summary: str) -> ApprovalRequested:
    return ApprovalRequested(call_id="c1", tool="bash", summary=summary, rule="ask bash")


async def test_a_second_answer_does_not_allow_another_call_with_the_same_id() -> None:
    one = waits()
    first = asyncio.ensure_future(one.approval(question("ls"), ()))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert one.offer(given(1), Approve(call_id="c1"))
    assert not one.offer(given(2), Approve(call_id="c1", scope="always"))  # a person pressed twice
    assert await first == Answer(allowed=True, by="usr_ada")
    second = asyncio.ensure_future(one.approval(question("rm -rf ."), ()))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done()
    assert one.offer(given(3), Deny(call_id="c1", reason="no"))
    assert await second == Answer(allowed=False, by="usr_ada", reason="no")


async def test_an_answer_that_was_given_before_a_crash_is_used() -> None:
    one = waits()
    assert not one.offer(given(1), Approve(call_id="c1"))
    assert await one.approval(question("ls"), ()) == Answer(allowed=True, by="usr_ada")


async def test_an_answer_that_was_given_before_a_restart_answers_the_question_that_was_open() -> None:
    one = waits()
    assert not one.offer(given(1), AnswerInput(call_id="ask_1", text="Spaces."))
    fresh = asyncio.ensure_future(one.question("Another?"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not fresh.done()
    fresh.cancel()
    assert await one.question("Tabs or spaces?", "ask_1") == "Spaces."
