"""A fork can take the conversation along, up to the moment of its files."""

from hutch.agent.conversation import INTERRUPTED, Conversation
from hutch.domain import events
from hutch.domain.events import Entry, Event
from hutch.domain.ids import SessionId
from hutch.flows.forked_conversation_copy import PART_BYTES, copy_conversation
from hutch.llm.interface import FromModel, FromTool, FromUser

SESSION = SessionId("ses_1")


def entries(*log: Event) -> list[Entry]:
    return [Entry(SESSION, seq, 0, event, "") for seq, event in enumerate(log, 1)]


def copied(log: list[Entry], snapshot: int | None = None) -> Conversation:
    """The conversation as the fork has it."""
    return Conversation.of(entries(events.SessionOpened(), *copy_conversation(log, snapshot)))


def replied(text: str, *calls: str) -> Event:
    made = tuple(events.CallMade(id=id, tool="bash", arguments="{}") for id in calls)
    return events.ModelReplied(run_id="run_1", turn=1, text=text, calls=made, input_tokens=5)


def called(id: str) -> Event:
    return events.ToolCalled(run_id="run_1", call_id=id, tool="bash", arguments="{}")


def returned(id: str, text: str = "ok") -> Event:
    return events.ToolReturned(run_id="run_1", call_id=id, tool="bash", ok=True, text=text)


def taken(number: int) -> Event:
    return events.SnapshotTaken(snapshot=number, tree="", reason="")


START = events.RunStarted(run_id="run_1", prompt="Fix it.", persona="coder", model="m")
RUN = (
    taken(1),
    START,
    replied("First.", "c1"),
    called("c1"),
    events.FileChanged(path="a", kind="modified", previous_snapshot=1, snapshot=2),
    taken(2),
    returned("c1"),
    replied("Second.", "c2"),
    called("c2"),
    taken(3),
    returned("c2"),
    replied("Done."),
    events.RunEnded(run_id="run_1", outcome="done"),
)


def test_the_whole_conversation_is_copied() -> None:
    log = entries(*RUN)
    assert copied(log).messages == Conversation.of(log).messages
    assert copied(log).task == "Fix it."


def test_only_the_part_up_to_the_snapshot_is_copied() -> None:
    found = copied(entries(*RUN), snapshot=2)
    assert [type(each) for each in found.messages] == [FromUser, FromModel, FromTool]
    assert found.waiting == {}
    [event] = copy_conversation(entries(*RUN), 2)
    assert (event.session, event.upto_seq) == (SESSION, 7)


def test_an_open_call_is_closed_in_the_copy() -> None:
    found = copied(entries(*RUN[:4]))
    assert found.messages[-1] == FromTool("c1", "bash", INTERRUPTED, False)
    assert found.waiting == {}


def test_undone_runs_approvals_and_earlier_parts_are_not_copied() -> None:
    log = entries(
        *RUN,
        events.ApprovalAnswered(call_id="c2", allowed=True, scope="session"),
        events.ContextCompacted(run_id="run_1", upto_seq=12, summary="It was fixed."),
        events.RunStarted(run_id="run_2", prompt="More.", persona="coder", model="m"),
        replied("Undone."),
        events.SessionRewound(to_seq=15, snapshot=3),
    )
    [event] = copy_conversation(log, None)
    assert [each["type"] for each in event.events] == ["run.started", "context.compacted"]
    assert copied(log).messages == [FromUser("It was fixed.")]


def test_a_long_conversation_has_several_parts_and_a_fork_of_a_fork_has_it_too() -> None:
    log = entries(START, *(replied("x" * (PART_BYTES // 2)) for _ in range(5)))
    parts = copy_conversation(log, None)
    assert len(parts) > 2
    again = copy_conversation(entries(events.SessionOpened(), *parts), None)
    found = Conversation.of(entries(*again))
    assert found.messages == Conversation.of(log).messages


def test_without_a_conversation_nothing_is_copied() -> None:
    assert copy_conversation(entries(events.SessionOpened(), taken(1)), None) == []


UNDO = (
    events.FileChanged(path="a", kind="modified", previous_snapshot=3, snapshot=4, cause="undo"),
    events.SessionRewound(to_seq=0, snapshot=1, before=3, after=4),
)


def test_of_an_undone_run_the_part_up_to_a_snapshot_of_it_is_copied() -> None:
    found = copied(entries(*RUN, *UNDO), snapshot=2)
    assert found.messages == copied(entries(*RUN), snapshot=2).messages
    assert found.task == "Fix it."


def test_after_the_undo_the_run_is_not_copied() -> None:
    assert copy_conversation(entries(*RUN, *UNDO), 4) == []
    assert copy_conversation(entries(*RUN, *UNDO), None) == []
