"""The model's messages are built from the log: the same now as after a crash, and never changed."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hutch.agent.conversation import Conversation
from hutch.agent.model_call import as_read_back
from hutch.agent.run_setup import UserMessage
from hutch.domain import events
from hutch.domain.errors import LimitReached
from hutch.domain.events import Event, from_json, to_json
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.llm.interface import FromModel, FromTool, FromUser, Request, Usage
from tests.agent.run_setups import FunctionModel, SetupOptions, Turn, call, entries, open_setup
from tests.deadline import DEADLINE_S
from tests.hypothesis_examples import examples

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
ids = st.sampled_from(["c1", "c2", "c3"])
plain_json = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
made = st.builds(events.CallMade, id=ids, tool=st.sampled_from(["bash", "finish"]), arguments=texts)
some_events = st.one_of(
    st.builds(events.RunStarted, run_id=st.just("r"), prompt=texts, persona=texts, model=texts),
    st.builds(events.MessageSent, author=st.sampled_from(["user", "agent", "hutch"]), text=texts),
    st.builds(
        events.ModelReplied,
        run_id=st.just("r"),
        turn=st.integers(1, 9),
        text=texts,
        calls=st.lists(made, max_size=3, unique_by=lambda each: each.id).map(tuple),
        finish=st.sampled_from(["stop", "calls", "length", "refused", "other"]),
        input_tokens=st.integers(0, 10**6),
        opaque=st.dictionaries(texts, plain_json, max_size=2).map(as_read_back),  # as the loop does
    ),
    st.builds(events.ToolCalled, run_id=st.just("r"), call_id=ids, tool=texts, arguments=texts),
    st.builds(
        events.ToolReturned,
        run_id=st.just("r"),
        call_id=ids,
        tool=st.sampled_from(["bash", "finish"]),
        ok=st.booleans(),
        text=texts,
    ),
    st.builds(events.ApprovalRequested, call_id=ids, tool=texts, summary=texts, rule=texts),
    st.builds(
        events.ApprovalAnswered,
        call_id=ids,
        allowed=st.booleans(),
        scope=st.sampled_from(["once", "session", "always"]),
    ),
    st.builds(events.FileChanged, path=texts, kind=st.just("modified"), moved_from=st.none() | texts),
    st.builds(events.ContextCompacted, run_id=st.just("r"), upto_seq=st.integers(0, 99), summary=texts),
    st.builds(events.SnapshotTaken, snapshot=st.integers(0, 9), tree=texts, reason=texts),
)


RUN: tuple[Event, ...] = (
    events.RunStarted(run_id="r", prompt="do it", persona="p", model="m"),
    events.ModelReplied(
        run_id="r",
        turn=1,
        text="I look.",
        calls=tuple(events.CallMade(id=id, tool="bash", arguments="{}") for id in ("a", "b")),
        finish="calls",
    ),
    events.ToolReturned(run_id="r", call_id="a", tool="bash", ok=True, text="one"),
    events.ToolReturned(run_id="r", call_id="b", tool="bash", ok=True, text="two"),
    events.ModelReplied(run_id="r", turn=2, text="Done.", calls=(), finish="stop"),
)


@pytest.mark.parametrize("erased", [{0}, {1}, {2}, {3}, {2, 3}, {4}, {0, 1}, {1, 4}])
def test_an_erased_log_makes_a_valid_conversation(erased: set[int]) -> None:
    """Providers refuse a reply without a question, a call without a result, a result without its call."""
    conversation = Conversation()
    for place, event in enumerate(RUN):
        gone = events.ErasedEvent(type=event.type, at_ms=0, reason="a leak")
        conversation.apply(gone if place in erased else event, place + 1)
    messages = [*conversation.messages, FromUser("go on")]
    assert isinstance(messages[0], FromUser)
    calls = []
    for place, message in enumerate(messages):
        if isinstance(message, FromModel):
            calls += [call.id for call in message.calls]
            answers = messages[place + 1 : place + 1 + len(message.calls)]
            answered = [each.call_id for each in answers if isinstance(each, FromTool)]
            assert sorted(answered) == [call.id for call in message.calls]
    assert sorted(each.call_id for each in messages if isinstance(each, FromTool)) == calls


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(some_events, max_size=25))
def test_a_log_that_is_read_back_makes_the_same_conversation(log: list[Event]) -> None:
    live, rebuilt = Conversation(), Conversation()
    for seq, event in enumerate(log, start=1):
        before = list(live.messages)
        live.apply(event, seq)
        rebuilt.apply(from_json(to_json(event), event.type), seq)
        if not isinstance(event, events.ContextCompacted):
            assert live.messages[: len(before)] == before
    assert repr(rebuilt) == repr(live)


@given(st.recursive(plain_json | st.text(max_size=5), lambda inner: st.lists(inner).map(tuple), max_leaves=5))
def test_json_is_as_it_will_be_read_back(value: Any) -> None:
    once = as_read_back({"x": value})
    event = events.ModelReplied(run_id="r", turn=1, opaque=once)
    assert from_json(to_json(event), event.type) == event
    assert as_read_back(once) == once


def heads(request: Request) -> str:
    return repr((request.system, request.tools))


@pytest.mark.anyio
async def test_each_request_begins_with_the_one_before_over_fifty_turns(tmp_path: Path) -> None:
    def think(request: Request) -> Turn:
        turn = sum(isinstance(message, FromModel) for message in request.messages)
        if turn == 50:
            return Turn(calls=(call("finish", title="Done"),))
        match turn % 5:
            case 0:
                return Turn(f"turn {turn}", (call("bash", command=f"echo {turn} >> f; cat f"),))
            case 1:
                return Turn(calls=(call("read_file", path="f"), call("glob", pattern="*"), call("nothing")))
            case 2:
                return Turn(calls=(call("write_file", path="AGENTS.md", content=f"Notes {turn}"),))
            case 3:
                return Turn(calls=({"tool": "grep", "args": "broken"},))
        return Turn(calls=(call("edit_file", path="f", edits=[{"insert_line": 0, "new": "é\n"}]),))

    model = FunctionModel(think)
    async with open_setup(tmp_path, SetupOptions({"f": b"0\n"}, "[]", model=model)) as setup:
        setup.inbox.append(UserMessage("Mind the gap."))
        finished = await begin(setup, "run_1", "Go.")
        log = await entries(setup.recorder)
    assert (finished.ended.outcome, len(model.seen)) == ("done", 51)
    stable = [
        later.messages[: len(earlier.messages)] == earlier.messages and heads(later) == heads(earlier)
        for earlier, later in zip(model.seen, model.seen[1:], strict=False)
    ]
    assert stable == [True] * 50
    rebuilt = Conversation()
    for entry in log:
        rebuilt.apply(entry.event, entry.seq)
    last = model.seen[-1].messages
    assert repr(tuple(rebuilt.messages[: len(last)])) == repr(last)


def compacting(request: Request, *, answer: Turn) -> Turn:
    """Prints long outputs until the conversation is compacted, then finishes."""
    last = request.messages[-1]
    if isinstance(last, FromUser) and "Only your next message will be kept" in last.text:
        return answer
    if (
        isinstance(request.messages[0], FromUser)
        and "Hutch replaced the conversation" in request.messages[0].text
    ):
        return Turn(calls=(call("finish", title="Done"),))
    turn = sum(isinstance(message, FromModel) for message in request.messages)
    if turn == 0:
        edit = call("edit_file", path="f", edits=[{"old": "0", "new": "1"}])
        return Turn("I decide for plan B.", (edit, call("bash", command="echo x > by_bash")))
    return Turn(f"thought {turn}", (call("bash", command=f"seq {turn} 2000"),))


@pytest.mark.anyio
async def test_a_summary_has_the_task_the_users_messages_and_the_files(tmp_path: Path) -> None:
    answer = Turn("Plan B was chosen, the key is hunter2-hunter2.", usage=Usage(input=100, output=7))
    model = FunctionModel(lambda request: compacting(request, answer=answer), context_tokens=12_000)
    options = SetupOptions({"f": b"0\n"}, "[]", model=model, secrets=["hunter2-hunter2"])
    async with open_setup(tmp_path, options) as setup:
        setup.inbox.append(UserMessage("Use tabs."))
        finished = await begin(setup, "run_1", "The task itself.")
        log = await entries(setup.recorder)
    assert finished.ended.outcome == "done"
    (made_short,) = [each.event for each in log if isinstance(each.event, events.ContextCompacted)]
    assert made_short.summary.startswith(
        "The task itself.\n\n[Hutch replaced the conversation so far by this summary.]"
    )
    for part in (
        "Messages of the user after the task:\n- Use tabs.",
        "- f (modified)",
        "- by_bash (added)",
        "Current state:\nPlan B was chosen, the key is [redacted:secret].",
    ):
        assert part in made_short.summary
    assert made_short.tokens_after < made_short.tokens_before
    assert model.seen[-1].messages[0] == FromUser(made_short.summary)
    # It was paid for, and is counted when the log is taken up again.
    replies = [each.event for each in log if isinstance(each.event, events.ModelReplied)]
    assert finished.ended.input_tokens == sum(each.input_tokens for each in replies) + 100
    rebuilt = Conversation()
    for entry in log:
        rebuilt.apply(entry.event, entry.seq)
    assert rebuilt.messages[0] == FromUser(made_short.summary)
    assert isinstance(rebuilt.messages[-1], FromTool)


@pytest.mark.anyio
@pytest.mark.parametrize(
    "answer", [Turn(""), Turn(error=LimitReached("Too long even for that.", limit="context"))]
)
async def test_without_a_summary_the_last_replies_replace_it(tmp_path: Path, answer: Turn) -> None:
    model = FunctionModel(lambda request: compacting(request, answer=answer), context_tokens=12_000)
    async with open_setup(tmp_path, SetupOptions({"f": b"0\n"}, "[]", model=model)) as setup:
        finished = await begin(setup, "run_1", "The task itself.")
    assert finished.ended.outcome == "done"
    summary = model.seen[-1].messages[0]
    assert isinstance(summary, FromUser) and "I decide for plan B.\nthought 1" in summary.text


@pytest.mark.anyio
async def test_a_scripted_model_continues_after_a_compaction(
    tmp_path: Path,
) -> None:
    script = [
        {"text": f"Turn {turn}.", "calls": [call("bash", command=f"seq {turn} 2000")]} for turn in range(4)
    ]
    done = {"when": {"tool": "bash", "contains": "2000"}, "text": "Done."}
    options = SetupOptions({"f": b"0\n"}, json.dumps({"context_tokens": 9000, "replies": [*script, done]}))
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        finished = await begin(setup, "run_1", "The task itself.")
        log = await entries(setup.recorder)
    short = [each.seq for each in log if isinstance(each.event, events.ContextCompacted)]
    assert short
    replies = [each.event.text for each in log if isinstance(each.event, events.ModelReplied)]
    assert replies == ["Turn 0.", "Turn 1.", "Turn 2.", "Turn 3.", "Done."]
    assert finished.summary == "Done."
    async with open_setup(tmp_path, options, session_id) as setup:
        again = await resume_run(setup, "run_1", [each for each in log if each.seq <= short[0]])
    assert (again.summary, again.ended.turns) == ("Done.", 5)


@pytest.mark.anyio
async def test_a_conversation_that_the_provider_finds_too_long_is_compacted(tmp_path: Path) -> None:
    def think(request: Request) -> Turn:
        # By our own estimate it was not too long.
        if len(request.messages) > 4 and not isinstance(request.messages[-1], FromUser):
            return Turn(error=LimitReached("The conversation is too long.", limit="context"))
        return compacting(request, answer=Turn("In short."))

    model = FunctionModel(think)
    async with open_setup(tmp_path, SetupOptions({"f": b"0\n"}, "[]", model=model)) as setup:
        finished = await begin(setup, "run_1", "The task itself.")
        log = await entries(setup.recorder)
    assert finished.ended.outcome == "done"
    assert sum(isinstance(each.event, events.ContextCompacted) for each in log) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("last", [Turn(calls=(call("finish", title="Done", summary="So."),)), Turn("So.")])
async def test_a_concluded_run_does_not_ask_the_model_again(tmp_path: Path, last: Turn) -> None:
    """Killed between the last reply and the end of the run."""
    model = FunctionModel(lambda request: last)
    options = SetupOptions({"f": b"0\n"}, "[]", model=model)
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        first = await begin(setup, "run_1", "Go.")
        log = await entries(setup.recorder)
    end = next(place for place, entry in enumerate(log) if isinstance(entry.event, events.RunEnded))
    async with open_setup(tmp_path, options, session_id) as setup:
        again = await asyncio.wait_for(resume_run(setup, "run_1", log[:end]), DEADLINE_S)
    assert len(model.seen) == 1
    assert (again.title, again.summary, again.ended.outcome) == (first.title, first.summary, "done")


def test_a_model_does_not_see_messages_for_some_users_only() -> None:
    messages = [
        events.RunStarted(run_id="r", prompt="Work.", persona="coder", model="m"),
        events.MessageSent(author="user", text="hidden tests: 3 failed", audience="owner"),
        events.MessageSent(author="user", text="for everyone"),
    ]
    made = Conversation()
    for number, event in enumerate(messages, 1):
        made.apply(event, number)
    assert made.messages == [FromUser("Work."), FromUser("for everyone")]
    assert (made.user_messages, made.seq) == (["for everyone"], 3)


def test_an_approval_that_was_extended_holds_for_the_session_and_only_for_its_own_call() -> None:
    reply = events.ModelReplied(
        run_id="r",
        turn=1,
        text="",
        calls=(events.CallMade(id="c1", tool="bash", arguments='{"command": "git push"}'),),
        finish="calls",
    )
    asked = events.ApprovalRequested(call_id="c1", tool="bash", summary="git push", rule="ask bash")
    once = events.ApprovalAnswered(call_id="c1", allowed=True, scope="once")
    extended = events.ApprovalExtended(call_id="c1")

    def granted(*after: Event) -> list[str]:
        conversation = Conversation()
        for seq, event in enumerate((*RUN[:1], reply, asked, once, *after), start=1):
            conversation.apply(event, seq)
        return [call.id for call, _ in conversation.granted]

    assert granted() == []
    assert granted(extended) == ["c1"]
    assert granted(extended, extended) == ["c1"]
    # A later call with the same id was asked about, and nobody has answered yet.
    assert granted(asked, extended) == []
