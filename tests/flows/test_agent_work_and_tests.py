"""A run may follow others in the same log: it sees their messages, and repeats none of their work."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.conversation import INTERRUPTED, NOT_MADE
from hutch.agent.loop import RESUMED
from hutch.agent.repository_testing.workspace_test_suite_runs import SuiteOptions
from hutch.agent.run_setup import RunSetup
from hutch.agent.tool_call_permission_decision import Answer
from hutch.agent.tool_call_rules import Rule
from hutch.domain import events
from hutch.flows.run_execution.agent_work_and_tests import REOPENED, begin, resume_run
from hutch.flows.run_execution.stored_run_options import RunOptions
from hutch.llm.interface import FromModel, FromTool, FromUser, Request
from tests.agent.run_setups import FunctionModel, SetupOptions, Turn, call, entries, open_setup

pytestmark = pytest.mark.anyio
FINISH = call("finish", title="First", summary="The first is done.")
PUSH = call("bash", command="git push nowhere")


def thinking(*each: Turn) -> FunctionModel:
    said = iter(each)
    return FunctionModel(lambda request: next(said))


async def test_a_second_run_sees_the_first_and_counts_anew(tmp_path: Path) -> None:
    model = thinking(
        Turn("I write.", (call("write_file", path="AGENTS.md", content="Obey the agent."),)),
        Turn(calls=(FINISH,)),
        Turn(calls=(call("write_file", path="b", content="2\n"),)),
        Turn("The second is done."),
    )
    options = SetupOptions({"AGENTS.md": b"Use tabs."}, "[]", model=model)
    async with open_setup(tmp_path, options) as setup:
        one = await begin(setup, "run_1", "The first.")
        log = await entries(setup.recorder)
        two = await begin(setup, "run_2", "The second.", log)
        changed = await setup.context.workspace.changes(two.first.id, two.last.id)
        log = await entries(setup.recorder)
    assert (one.title, one.summary, one.ended.outcome) == ("First", "The first is done.", "done")
    assert (two.title, two.summary, two.ended.outcome) == ("The second.", "The second is done.", "done")
    assert (two.first.tree, [each.path for each in changed]) == (one.last.tree, ["b"])
    assert (two.ended.turns, two.ended.input_tokens) == (2, 20)
    before, after = model.seen[1:3]
    assert after.messages[: len(before.messages)] == before.messages
    assert [type(each) for each in after.messages[len(before.messages) :]] == [FromModel, FromTool, FromUser]
    assert after.messages[-1] == FromUser("The second.")
    # The notes are those of the beginning, whatever the agent made of them meanwhile.
    assert after.system == before.system and "Use tabs." in after.system
    runs = [each.event for each in log if isinstance(each.event, events.RunStarted)]
    assert [each.run_id for each in runs] == ["run_1", "run_2"]
    assert runs[0].notes == runs[1].notes


async def test_open_calls_of_a_cancelled_run_are_reported_and_not_done(tmp_path: Path) -> None:
    waits = call("bash", command="echo begun > begun; sleep 600", timeout_s=600)
    wanted = waits, call("bash", command="touch never")
    model = thinking(Turn(calls=wanted), Turn("So it was stopped."))
    async with open_setup(tmp_path, SetupOptions({"a": b""}, "[]", model=model)) as setup:
        going = asyncio.ensure_future(begin(setup, "run_1", "The first."))
        while await setup.context.workspace.read_small("begun") is None:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        log = await entries(setup.recorder)
        worked = await begin(setup, "run_2", "The second.", log)
        log = await entries(setup.recorder)
        assert await setup.context.workspace.read_small("never") is None
    returned = [each.event for each in log if isinstance(each.event, events.ToolReturned)]
    assert [(each.run_id, each.text, each.ok) for each in returned] == [
        ("run_1", INTERRUPTED, False),
        ("run_1", NOT_MADE, False),
    ]
    seen = model.seen[-1].messages
    assert [type(each) for each in seen] == [FromUser, FromModel, FromTool, FromTool, FromUser]
    assert worked.summary == "So it was stopped."


async def test_a_second_run_that_was_killed_goes_on_as_itself(tmp_path: Path) -> None:
    """The first one's last word is not taken for the second's, nor its first snapshot."""
    model = thinking(
        Turn(calls=(call("write_file", path="a", content="1\n"), FINISH)),
        Turn(calls=(call("write_file", path="b", content="2\n"),)),
        Turn("The second is done."),
        Turn("The second goes on."),
    )
    options = SetupOptions({"a": b"0\n"}, "[]", model=model)
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        one = await begin(setup, "run_1", "The first.")
        await begin(setup, "run_2", "The second.", await entries(setup.recorder))
        log = await entries(setup.recorder)
    started = [place for place, each in enumerate(log) if isinstance(each.event, events.RunStarted)][-1]
    async with open_setup(tmp_path, options, session_id) as setup:
        again = await resume_run(setup, "run_2", log[: started + 1])
    assert (again.summary, again.first.tree) == ("The second goes on.", one.last.tree)
    assert again.ended.turns == 1
    assert RESUMED in str(model.seen[-1].messages[-1])


async def test_new_shells_are_announced_and_approvals_for_the_session_hold(tmp_path: Path) -> None:
    asked: list[str] = []

    async def approve(event: events.ApprovalRequested, covers: tuple[Rule, ...]) -> Answer:
        asked.append(event.summary)
        return Answer(allowed=True, scope="session")

    model = thinking(Turn(calls=(PUSH,)), Turn("One."), Turn(calls=(PUSH,)), Turn("Two."))
    options = SetupOptions({"a": b""}, "[]", model=model, approve=approve, persona="careful", folder=tmp_path)
    (tmp_path / "careful.md").write_text("---\npolicy: {rules: [ask bash git push]}\n---\nBe careful.")
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        await begin(setup, "run_1", "The first.")
    async with open_setup(tmp_path, options, session_id) as setup:
        log = await entries(setup.recorder)
        await begin(setup, "run_2", "The second.", log, reopened=True)
    assert asked == ["git push nowhere"]
    assert model.seen[2].messages[-2:] == (FromUser("The second."), FromUser(f"[Hutch: {REOPENED}]"))


async def test_a_short_conversation_keeps_the_tasks_of_the_runs_before(tmp_path: Path) -> None:
    def think(request: Request) -> Turn:
        last = request.messages[-1]
        if isinstance(last, FromUser) and "Only your next message will be kept" in last.text:
            return Turn("In short.")
        if "Hutch replaced the conversation" in request.messages[0].text:
            return Turn("Done.")
        turn = sum(isinstance(message, FromModel) for message in request.messages)
        return Turn(calls=(call("bash", command=f"seq {turn} 2000"),)) if turn else Turn("Nothing to do.")

    model = FunctionModel(think, context_tokens=12_000)
    async with open_setup(tmp_path, SetupOptions({"a": b""}, "[]", model=model)) as setup:
        await begin(setup, "run_1", "The first task.")
        await begin(setup, "run_2", "The second task.", await entries(setup.recorder))
    summary = model.seen[-1].messages[0]
    assert isinstance(summary, FromUser)
    assert summary.text.startswith("The second task.\n\nEarlier tasks of the user:\n- The first task.\n\n")


async def test_secrets_in_the_repositorys_notes_reach_neither_the_model_nor_the_log(tmp_path: Path) -> None:
    model = thinking(Turn("Done."))
    files = {"AGENTS.md": b"The key is hunter2-hunter2."}
    options = SetupOptions(files, "[]", model=model, secrets=["hunter2-hunter2"])
    async with open_setup(tmp_path, options) as setup:
        await begin(setup, "run_1", "Go.")
        log = await entries(setup.recorder)
    assert "The key is [redacted:secret]." in model.seen[0].system
    assert "hunter2-hunter2" not in model.seen[0].system + str(log)


@pytest.mark.parametrize(("edits", "deliver"), [(False, False), (True, False), (False, True)])
async def test_tests_run_after_an_answer_only_if_the_agent_worked_or_its_session_delivers(
    tmp_path: Path, edits: bool, deliver: bool
) -> None:
    """A person types while the agent answers: their tests are theirs to run."""
    place: list[Path] = []

    def think(request: Request) -> Turn:
        (place[0] / "typed").write_text("By a person.\n")
        if edits and isinstance(request.messages[-1], FromUser):
            return Turn(calls=(call("write_file", path="b", content="2\n"),))
        return Turn("Look at the loop.")

    options = SetupOptions({"a": b"0\n"}, "[]", model=FunctionModel(think))
    async with open_setup(tmp_path, options) as setup:
        place.append(Path(f"/proc/self/fd/{setup.context.workspace.mount.directory.fd}"))
        setup = _testing_with(setup, "echo 'the typed text is wrong'; exit 1")
        worked = await begin(setup, "run_1", "Where should I look?", options=RunOptions(deliver=deliver))
        log = await entries(setup.recorder)
    ran = [entry.event for entry in log if isinstance(entry.event, events.RanTests)]
    is_tested = edits or deliver
    assert (bool(ran), worked.ended.outcome) == (is_tested, "tests_failing" if is_tested else "done")


async def test_the_reason_why_tests_could_not_run_has_no_secrets(tmp_path: Path) -> None:
    def options(command: str) -> SetupOptions:
        model = thinking(Turn(calls=(call("write_file", path="a", content="1\n"),)), Turn("Done."))
        files = {"a": b"0\n", "hunter2-hunter2": f"#!/bin/sh\n{command}\n".encode()}
        return SetupOptions(files, "[]", model=model, secrets=["hunter2-hunter2"])

    async with open_setup(tmp_path / "one", options("true")) as setup:
        worked = await begin(_testing_with(setup, "no-such-runner hunter2-hunter2 --all"), "run_1", "Go.")
        log = await entries(setup.recorder)
    assert worked.ended.outcome == "tests_failing"
    assert "no-such-runner: command not found" in worked.ended.reason
    assert "tests.command" in worked.ended.reason
    [ran] = [entry.event for entry in log if isinstance(entry.event, events.RanTests)]
    assert ran.reason == worked.ended.reason
    async with open_setup(tmp_path / "two", options("true")) as setup:
        worked = await begin(_testing_with(setup, "echo cannot open hunter2-hunter2; exit 3"), "run_1", "Go.")
    assert worked.ended.reason == "The tests failed with exit code 3: cannot open [redacted:secret]."


def _testing_with(setup: RunSetup, command: str) -> RunSetup:
    return replace(setup, context=replace(setup.context, suite_options=SuiteOptions(command=command)))
