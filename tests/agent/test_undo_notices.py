"""The agent reads that a step was undone, and never between a call and its result."""

from hutch.agent.conversation import Conversation
from hutch.domain import events
from hutch.domain.events import Entry, Event
from hutch.domain.ids import SessionId
from hutch.llm.interface import FromModel, FromTool, FromUser, Message

START = events.RunStarted(run_id="run_1", prompt="Fix it.", persona="coder", model="m")
CALL = events.ModelReplied(
    run_id="run_1", turn=1, calls=(events.CallMade(id="c1", tool="bash", arguments="{}"),)
)
RESULT = events.ToolReturned(run_id="run_1", call_id="c1", tool="bash", ok=True, text="ok")
REPLY = events.ModelReplied(run_id="run_1", turn=2, text="Done.")
UNDONE = events.ChangesUndone(step=3, title="the call of bash", files=("a.py", "b.py"), files_count=2)
REDONE = events.SessionRedone(undone=9, title="the undo of the call of bash")
NOTICE = FromUser(
    "[Hutch: A user has undone the call of bash. These files have changed: a.py, b.py. Read them before "
    "you edit them.]"
)


def messages(*log: Event) -> list[Message]:
    return Conversation.of(
        Entry(SessionId("ses_1"), seq, 0, event, "") for seq, event in enumerate(log)
    ).messages


def test_a_notice_follows_the_last_reply() -> None:
    assert messages(START, REPLY, UNDONE)[1:] == [FromModel("Done.", (), {}), NOTICE]


def test_a_notice_waits_for_the_results_of_open_calls() -> None:
    found = messages(START, CALL, UNDONE, RESULT)
    assert found[2:] == [FromTool("c1", "bash", "ok", True), NOTICE]


def test_a_notice_comes_before_the_next_reply_if_a_result_was_erased() -> None:
    found = messages(START, CALL, UNDONE, REPLY)
    assert [type(each) for each in found[1:]] == [FromModel, FromTool, FromUser, FromModel]


def test_a_redo_is_noted_too() -> None:
    text = "[Hutch: A user has taken back the undo of the call of bash. No file has changed.]"
    assert messages(START, REPLY, UNDONE, REDONE)[-1] == FromUser(text)


def test_a_notice_does_not_change_how_the_run_ended() -> None:
    log = [Entry(SessionId("ses_1"), 1, 0, each, "") for each in (START, REPLY, UNDONE)]
    assert Conversation.of(log).last == "Done."
