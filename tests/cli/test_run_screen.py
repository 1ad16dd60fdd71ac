"""What a person sees of a run."""

import os

import pytest

from hutch.agent.policy import Rule
from hutch.cli.run_screen import Screen
from hutch.domain.events import ApprovalAsked, Event, ModelReplied, RunEnded, ToolCalled, ToolReturned
from hutch.llm.seam import Again

pytestmark = pytest.mark.anyio


def test_that_money_is_no_limit_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    screen = Screen()
    screen.event(ModelReplied(run_id="run_1", turn=1, cost_usd=0.1))
    assert capsys.readouterr().out == ""
    for turn in (2, 3):
        screen.event(ModelReplied(run_id="run_1", turn=turn, cost_usd=None))
    assert capsys.readouterr().out.count("is not known, so money cannot be a limit") == 1


EVIL = "\x1b[2J\x1b]0;title\x07\n\u202eforged"


@pytest.mark.parametrize(
    "event",
    [
        ToolCalled(run_id="run_1", call_id="a", tool=EVIL, arguments=EVIL),
        ToolReturned(run_id="run_1", call_id="a", tool=EVIL, ok=False, text=EVIL),
        RunEnded(run_id="run_1", outcome="failed", reason=EVIL),
    ],
    ids=lambda event: event.type,
)
def test_nothing_that_comes_from_elsewhere_drives_the_terminal(
    event: Event, capsys: pytest.CaptureFixture[str]
) -> None:
    Screen().event(event)
    Screen().delta(Again(attempt=2, wait_s=0.0, reason=EVIL))
    shown = capsys.readouterr().out
    assert all(sign.isprintable() or sign == "\n" for sign in shown)
    assert "\nforged" not in shown


async def test_the_question_for_an_approval_cannot_be_forged(capsys: pytest.CaptureFixture[str]) -> None:
    read, write = os.pipe()
    os.write(write, b"n\n")
    kept = os.dup(0)
    os.dup2(read, 0)
    try:
        asked = ApprovalAsked(call_id="a", tool=EVIL, summary=EVIL, rule=EVIL)
        answer = await Screen().approve(asked, (Rule("allow", EVIL, EVIL),))
    finally:
        os.dup2(kept, 0)
        for fd in (read, write, kept):
            os.close(fd)
    shown = capsys.readouterr().out
    assert not answer.allowed
    assert all(sign.isprintable() or sign == "\n" for sign in shown) and shown.count("\n") == 1
