"""A prompt becomes a tested change, and every error ends in exactly one outcome."""

# ruff: noqa: ASYNC110 (there is nothing to wait for but what is inside)

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.run_setup import UserMessage
from hutch.domain import events
from hutch.domain.run_limits import DEFAULT_LIMITS, RunLimits
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.llm.interface import Request
from tests.agent.run_setups import (
    BROKEN,
    FIX,
    FunctionModel,
    SetupOptions,
    Turn,
    call,
    entries,
    open_setup,
    replies,
)

pytestmark = pytest.mark.anyio

FINISH = {"calls": [call("finish", title="Add, not subtract", summary="The sign was wrong.")]}
MENDING = replies(
    {"when": {"tool": "run_tests", "contains": "1 passed"}, **FINISH},
    {"when": {"tool": "read_file", "contains": "a - b"}, "calls": [call("edit_file", **FIX)]},
    {"text": "Let me see.", "calls": [call("run_tests"), call("read_file", path="adding.py")]},
    {"calls": [call("run_tests")], "times": 3},
)


async def test_a_failing_test_is_fixed(tmp_path: Path) -> None:
    async with open_setup(tmp_path, SetupOptions(BROKEN, MENDING)) as setup:
        finished = await begin(setup, "run_1", "Make the test pass.")
        log = [entry.event for entry in await entries(setup.recorder)]
        assert (finished.ended.outcome, finished.ended.turns) == ("done", 4)
        assert (finished.title, finished.summary) == ("Add, not subtract", "The sign was wrong.")
        assert finished.changed
        patch, _ = await setup.context.workspace.patch(finished.first.id, finished.last.id)
    assert b"-    return a - b\n+    return a + b\n" in patch
    assert [(e.passed, e.failed) for e in log if isinstance(e, events.RanTests)] == [(0, 1), (1, 0)]
    assert [e.path for e in log if isinstance(e, events.FileChanged)] == ["adding.py"]
    types = [event.type for event in log if event.type != "snapshot.taken"]
    assert types == [
        *("session.opened", "step.reached", "run.started", "model.replied"),
        *("tool.called", "tests.started", "tests.run", "tool.returned"),
        *("tool.called", "tool.returned", "model.replied"),
        *("tool.called", "file.changed", "tool.returned", "model.replied"),
        *("tool.called", "tests.started", "tests.run", "tool.returned", "model.replied"),
        *("tool.called", "tool.returned"),
        "run.ended",
    ]


async def test_the_tests_decide_the_outcome(tmp_path: Path) -> None:
    wrong = {"path": "adding.py", "edits": [{"old": "a - b", "new": "a * b"}]}
    cassette = replies({"calls": [call("edit_file", **wrong)]}, FINISH)
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        finished = await begin(setup, "run_1", "Make the test pass.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert finished.ended.outcome == "tests_failing"
    assert finished.tests is not None and "1 failed" in finished.tests.text()
    # The user and the model read which tests fail.
    assert finished.ended.reason == "1 test fails: test_adding.Adding.test_add."
    (ran,) = [event for event in log if isinstance(event, events.RanTests)]
    assert (ran.cause, ran.by, ran.run_id) == ("delivery", "hutch", "run_1")
    (message,) = [event for event in log if isinstance(event, events.MessageSent)]
    assert message.author == "hutch" and "FAILED test_adding.Adding.test_add" in message.text


WRITES = b"import unittest\n\nclass T(unittest.TestCase):\n    def test_x(self):\n        pass\n\n"
ONCE = b"    def tearDown(self):\n        open('mod.py', 'w').write('def f(): return 2\\n')\n"
ANEW = b"    def tearDown(self):\n        import time; open('mod.py', 'w').write(str(time.time()))\n"
REPORT = b"    def tearDown(self):\n        import time; open('report.xml', 'w').write(str(time.time()))\n"
OTHER = b"    def tearDown(self):\n        import uuid; open(f'{uuid.uuid4()}.py', 'w').write('x')\n"


@pytest.mark.parametrize(
    ("then", "outcome", "runs"),
    [
        (b"", "done", 1),
        (ONCE, "done", 2),
        (ANEW, "tests_failing", 3),
        (OTHER, "tests_failing", 3),
        (REPORT, "done", 2),
    ],
    ids=["nothing", "once", "always", "new files", "a report"],
)
async def test_files_that_tests_change_are_tested_or_reported(
    tmp_path: Path, then: bytes, outcome: str, runs: int
) -> None:
    files = {"mod.py": b"def f(): return 1\n", "test_mod.py": WRITES + then}
    cassette = replies({"calls": [call("write_file", path="x", content="x"), call("run_tests")]}, FINISH)
    async with open_setup(tmp_path, SetupOptions(files, cassette)) as setup:
        finished = await begin(setup, "run_1", "Work.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert (finished.ended.outcome, len([e for e in log if isinstance(e, events.RanTests)])) == (
        outcome,
        runs,
    )
    assert ("are untested" in finished.ended.reason) == (outcome != "done")


async def test_changes_after_the_tests_are_not_delivered_untested(tmp_path: Path) -> None:
    test = b"import unittest\nfrom mod import f\n\nclass T(unittest.TestCase):\n    def test_f(self):\n"
    files = {"mod.py": b"def f(): return 1\n", "test_mod.py": test + b"        self.assertEqual(f(), 1)\n"}
    later = "(until test -e go; do sleep 0.05; done; echo 'def f(): return 2' > mod.py; touch gone) &"
    cassette = replies(
        {"calls": [call("bash", command=f"echo '# fine' >> mod.py; {later}", yield_s=1)]},
        {"calls": [call("run_tests")]},
        FINISH,
    )

    async with open_setup(tmp_path, SetupOptions(files, cassette)) as setup:
        ran = False

        async def note(written: Sequence[events.Event]) -> None:
            nonlocal ran
            ran = ran or any(isinstance(each, events.RanTests) for each in written)

        def meanwhile(delta: object) -> None:
            tree = setup.context.workspace.place.directory
            if ran and not (tree / "gone").exists():
                (tree / "go").touch()
                while not (tree / "gone").exists():
                    time.sleep(0.02)

        setup.recorder.listeners.append(note)
        finished = await begin(replace(setup, on_delta=meanwhile), "run_1", "Work.")
    assert finished.ended.outcome == "tests_failing"
    assert finished.tests is not None and not finished.tests.ok


async def test_a_run_without_a_change_is_not_tested(tmp_path: Path) -> None:
    async with open_setup(tmp_path, SetupOptions(BROKEN, replies({"text": "It subtracts."}))) as setup:
        finished = await begin(setup, "run_1", "What does it do?")
    assert (finished.ended.outcome, finished.changed, finished.tests) == ("done", False, None)
    assert (finished.title, finished.summary) == ("What does it do?", "It subtracts.")


async def test_deeply_nested_arguments_get_an_error_result(tmp_path: Path) -> None:
    calls = [{"tool": "read_file", "args": "[" * 100_000}, {"tool": "bash", "args": '{"a":' * 100_000}]
    deep = {"calls": calls}
    async with open_setup(tmp_path, SetupOptions(BROKEN, replies(deep, FINISH))) as setup:
        finished = await begin(setup, "run_1", "Try.")
        log = [entry.event for entry in await entries(setup.recorder)]
    errors = [event.text for event in log if isinstance(event, events.ToolReturned) and not event.ok]
    assert ["nested too deep" in text for text in errors] == [True, True]
    assert finished.ended.outcome == "done"


async def test_invalid_calls_get_error_results(tmp_path: Path) -> None:
    cassette = replies(
        {"calls": [call("telepathy"), {"tool": "read_file", "args": "{"}, call("read_file", file="x")]},
        {"calls": [call("read_file", path="../../etc/passwd"), call("read_file", path="nothing.py")]},
        FINISH,
    )
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        await begin(setup, "run_1", "Try.")
        log = [entry.event for entry in await entries(setup.recorder)]
    errors = [event.text for event in log if isinstance(event, events.ToolReturned) and not event.ok]
    assert "There is no tool 'telepathy'" in errors[0]
    assert "the arguments are not JSON" in errors[1]
    assert "`path` is missing; `file` is unknown" in errors[2]
    assert "leads out of the workspace" in errors[3]
    assert "'nothing.py' does not exist" in errors[4]


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        (replace(DEFAULT_LIMITS, turns=3), "3 turns"),
        (replace(DEFAULT_LIMITS, tokens=1), "tokens"),
        (replace(DEFAULT_LIMITS, timeout_s=1.5), "seconds, which is the limit"),
    ],
)
async def test_a_limit_ends_a_run_with_a_reason(tmp_path: Path, limits: RunLimits, words: str) -> None:
    cassette = replies({"calls": [call("bash", command="sleep 0.3; date +%N")], "times": 1000})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette, limits=limits)) as setup:
        finished = await begin(setup, "run_1", "Go.")
    assert finished.ended.outcome == "limit_reached"
    assert words in finished.ended.reason


async def test_a_model_that_repeats_itself_is_stopped(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("read_file", path="nothing.py")], "times": 1000})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        finished = await begin(setup, "run_1", "Go.")
    assert (finished.ended.outcome, finished.ended.turns) == ("limit_reached", 6)
    assert "repeated itself" in finished.ended.reason


async def test_an_unavailable_model_fails_the_run(tmp_path: Path) -> None:
    cassette = replies({"fault": {"status": 529}, "times": 9})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        finished = await begin(setup, "run_1", "Go.")
    assert finished.ended.outcome == "failed"
    assert "Tried 3 times" in finished.ended.reason
    assert finished.ended.code == "unavailable"


async def test_cancelling_kills_all_processes_and_is_logged(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("bash", command="sleep 4242", timeout_s=600)]})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        task = asyncio.create_task(begin(setup, "run_1", "Go."))
        while (await setup.context.jail.run(["pgrep", "-f", "-x", "sleep 4242"])).exit_code:
            await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await setup.context.jail.run(["pgrep", "-f", "-x", "sleep 4242"])).exit_code == 1
        last = (await entries(setup.recorder))[-1].event
    assert isinstance(last, events.RunEnded) and last.outcome == "cancelled"


async def test_secrets_reach_neither_log_nor_model(tmp_path: Path) -> None:
    cassette = replies(
        {
            "text": "the key hunter2-hunter2",
            "calls": [call("bash", command="echo hunter2-hunter2 > f; cat f")],
        },
        FINISH,
    )
    options = SetupOptions(BROKEN, cassette, secrets=["hunter2-hunter2"])
    async with open_setup(tmp_path, options) as setup:
        await begin(setup, "run_1", "Print hunter2-hunter2.")
        log = await entries(setup.recorder)
        leaked = [entry for entry in log if "hunter2" in repr(entry.event)]
    assert leaked == []


async def test_secrets_in_the_name_and_the_id_of_a_call_reach_no_log(tmp_path: Path) -> None:
    calls = [{**call("hunter2-hunter2"), "id": "hunter2-hunter2"}, {**call("x" * 190 + "hunter2-hunter2")}]
    options = SetupOptions(BROKEN, replies({"calls": calls}, FINISH), secrets=["hunter2-hunter2"])
    async with open_setup(tmp_path, options) as setup:
        await begin(setup, "run_1", "Go.")
        log = await entries(setup.recorder)
    assert [entry for entry in log if "hunter2" in repr(entry.event)] == []
    returned = [entry.event for entry in log if isinstance(entry.event, events.ToolReturned)]
    assert [event.ok for event in returned] == [False, False, True]


async def test_messages_during_a_run_reach_the_model(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("bash", command="true")]}, FINISH)
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        setup.inbox.append(UserMessage("Mind the tests."))
        await begin(setup, "run_1", "Go.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert events.MessageSent(author="user", text="Mind the tests.") in log


async def test_a_run_is_resumed_from_its_log(tmp_path: Path) -> None:
    """As after a kill: the log ends in the middle of a call, and another process takes it up."""
    options = SetupOptions(BROKEN, MENDING)
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        task = asyncio.create_task(begin(setup, "run_1", "Make the test pass."))
        while not any(isinstance(e.event, events.FileChanged) for e in await entries(setup.recorder)):
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    async with open_setup(tmp_path, options, session_id) as setup:
        finished = await resume_run(setup, "run_1", await entries(setup.recorder))
        changed = [e for e in await entries(setup.recorder) if isinstance(e.event, events.FileChanged)]
        assert finished.ended.outcome == "done"
        assert len(changed) == 1  # the edit was not made again


async def test_a_run_killed_during_finish_finishes_after_a_resume(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("edit_file", **FIX)]}, FINISH)
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        session_id = setup.recorder.session_id
        await begin(setup, "run_1", "Make the test pass.")
        log = await entries(setup.recorder)
    last_call = [entry.seq for entry in log if isinstance(entry.event, events.ToolCalled)][-1]
    nothing_more = SetupOptions(BROKEN, replies({"text": "I was not to be asked."}))
    async with open_setup(tmp_path, nothing_more, session_id) as setup:
        finished = await resume_run(setup, "run_1", [entry for entry in log if entry.seq <= last_call])
        more = [entry.event for entry in (await entries(setup.recorder))[len(log) :]]
    assert (finished.ended.outcome, finished.title) == ("done", "Add, not subtract")
    assert [event.type for event in more if event.type in ("tool.called", "model.replied")] == []
    assert [event.text for event in more if isinstance(event, events.ToolReturned)] == ["Done."]


async def test_an_invalid_patch_gets_an_error_result(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("apply_patch", patch="*** Begin Patch\n*** what")]}, FINISH)
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        finished = await begin(setup, "run_1", "Go.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert finished.ended.outcome == "done"
    assert [event.ok for event in log if isinstance(event, events.ToolReturned)] == [False, True]


async def test_after_a_cut_off_reply_the_model_is_asked_to_continue(tmp_path: Path) -> None:
    cassette = replies({"text": "I was just", "finish": "length"}, {"text": "saying."})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        finished = await begin(setup, "run_1", "Go.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert (finished.summary, finished.ended.turns) == ("saying.", 2)
    (message,) = [event for event in log if isinstance(event, events.MessageSent)]
    assert (message.author, message.text.startswith("Your reply was cut off.")) == ("hutch", True)


async def test_a_refusal_of_the_model_fails_the_run_with_its_text(tmp_path: Path) -> None:
    cassette = replies({"text": "I cannot help with that.", "finish": "refused"})
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette)) as setup:
        ended = (await begin(setup, "run_1", "Go.")).ended
    assert (ended.outcome, ended.reason) == (
        "failed",
        "scripted:test refuses to continue. I cannot help with that.",
    )


async def test_a_bug_in_hutch_is_logged_and_raised(tmp_path: Path) -> None:
    def think(request: Request) -> Turn:
        raise ZeroDivisionError

    async with open_setup(tmp_path, SetupOptions(BROKEN, "[]", model=FunctionModel(think))) as setup:
        with pytest.raises(ZeroDivisionError):
            await begin(setup, "run_1", "Go.")
        last = (await entries(setup.recorder))[-1].event
    assert isinstance(last, events.RunEnded)
    assert (last.outcome, last.reason) == (
        "failed",
        "Hutch itself failed: ZeroDivisionError. This is a bug in Hutch.",
    )


async def test_lone_surrogates_are_replaced_before_they_are_logged(tmp_path: Path) -> None:
    turns = iter(
        [Turn("\ud83d\ude00 \ud800", (call("bash", command="cd \"$(mkdir -p $'\\377'; echo $'\\377')\""),))]
    )
    model = FunctionModel(lambda request: next(turns, Turn("Done.")))
    async with open_setup(tmp_path, SetupOptions(BROKEN, "[]", model=model)) as setup:
        finished = await begin(setup, "run_1", "Go.")
        log = [entry.event for entry in await entries(setup.recorder)]
    assert finished.ended.outcome == "done"
    assert next(event.text for event in log if isinstance(event, events.ModelReplied)) == "\U0001f600 \ufffd"


async def test_a_message_during_finish_reaches_the_model(tmp_path: Path) -> None:
    def think(request: Request) -> Turn:
        if "One more thing." in str(request.messages):
            return Turn("That too.")
        setup.inbox.append(UserMessage("One more thing."))
        return Turn(calls=(call("finish", title="Done"),))

    async with open_setup(tmp_path, SetupOptions(BROKEN, "[]", model=FunctionModel(think))) as setup:
        finished = await begin(setup, "run_1", "Go.")
    assert (finished.summary, finished.ended.turns) == ("That too.", 2)


async def test_waiting_for_a_user_does_not_count_as_working_time(tmp_path: Path) -> None:
    waited_s = 0.0

    async def slow(question: str, call_id: str, choices: Sequence[str]) -> str:
        nonlocal waited_s
        began = time.monotonic()
        await asyncio.sleep(limit_s)
        waited_s = time.monotonic() - began
        return "Yes."

    script = replies(
        {"calls": [call("ask_user", question="May I?")]},
        {"calls": [call("finish", title="Done")]},
    )
    for limit_s in (2.0, 8.0, 32.0):
        async with open_setup(tmp_path / str(limit_s), SetupOptions(BROKEN, script)) as setup:
            asking = replace(
                setup,
                context=replace(setup.context, ask=slow),
                limits=replace(DEFAULT_LIMITS, timeout_s=limit_s),
            )
            began = time.monotonic()
            finished = await begin(asking, "run_1", "Ask first.")
        if time.monotonic() - began - waited_s < limit_s:
            break  # else the work alone took longer on this machine
    assert finished.ended.outcome == "done"


async def test_a_run_killed_after_an_answer_uses_the_answer(tmp_path: Path) -> None:
    cassette = replies({"calls": [call("ask_user", question="Tabs?")]}, {"text": "Spaces, then."})

    async def answer(text: str, call_id: str, choices: Sequence[str]) -> str:
        asked = events.QuestionAsked(call_id="ask_1", text=text)
        await log_of[0].append([asked, events.QuestionAnswered(call_id="ask_1", text="No.", by="usr_1")])
        return "No."

    log_of = []
    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette, ask=answer)) as setup:
        log_of.append(setup.recorder)
        session_id = setup.recorder.session_id
        await begin(setup, "run_1", "Ask.")
        log = await entries(setup.recorder)
    (answered,) = [entry.seq for entry in log if isinstance(entry.event, events.QuestionAnswered)]

    async def nobody(text: str, call_id: str) -> str:
        raise AssertionError(f"{text} was asked again as {call_id!r}")

    async with open_setup(tmp_path, SetupOptions(BROKEN, cassette, ask=nobody), session_id) as setup:
        finished = await resume_run(setup, "run_1", [entry for entry in log if entry.seq <= answered])
        more = [entry.event for entry in (await entries(setup.recorder))[len(log) :]]
    assert finished.ended.outcome == "done"
    assert [event.text for event in more if isinstance(event, events.ToolReturned)] == [
        "The user answers: No."
    ]
