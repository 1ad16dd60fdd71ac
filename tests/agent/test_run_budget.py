"""The limits of a run, and a model that repeats itself."""

from dataclasses import replace
from pathlib import Path

import pytest

from hutch.agent.repetition_guard import FAILING_STOPPED, FAILING_WARNED, LoopGuard
from hutch.agent.run_budget import Spent, spent_before
from hutch.domain.events import (
    ContextCompacted,
    Entry,
    Event,
    ModelReplied,
    RunEnded,
    RunStarted,
    ToolReturned,
)
from hutch.domain.ids import new_session_id
from hutch.domain.run_limits import DEFAULT_LIMITS, RunLimits
from hutch.flows.run_execution.agent_work_and_tests import begin, resume_run
from hutch.llm.interface import FromModel, Request, Usage
from tests.agent.run_setups import FunctionModel, SetupOptions, Turn, call, entries, open_setup


def test_each_limit_is_described() -> None:
    spent = Spent()
    spent.add(Usage(input=900, output=100), 0.5)
    for limits, words in [
        (RunLimits(turns=1), "1 turn, which is the limit."),
        (RunLimits(tokens=1000), "1,000 tokens; the limit is 1,000"),
        (RunLimits(cost_usd=0.5), r"It cost $0.50; the limit is $0.50."),
        (RunLimits(cost_usd=0.0), r"It cost $0.50; the limit is $0.00."),
        (RunLimits(timeout_s=0), "0 seconds, which is the limit."),
    ]:
        assert words in (spent.describe_reached(limits) or "")
    assert spent.describe_reached(RunLimits(None, None, None, None)) is None


def test_a_cost_limit_is_never_described_as_zero_of_zero() -> None:
    text = "The cost limit is $0, so the model was not called. Set a higher limit, or none."
    assert Spent().describe_reached(RunLimits(cost_usd=0)) == text
    spent = Spent()
    spent.add(Usage(output=1), 0.00123)
    assert spent.describe_reached(RunLimits(cost_usd=0.001)) == "It cost $0.0012; the limit is $0.0010."


def test_the_cost_is_unknown_when_a_price_is_unknown() -> None:
    spent = Spent()
    spent.add(Usage(output=1), 0.25)
    assert spent.cost == 0.25
    spent.add(Usage(output=1), None)
    assert spent.cost is None


def test_the_tighter_of_two_limits_holds() -> None:
    assert RunLimits(10, None, 2.0, 60).tightened(RunLimits(20, 5, None, 30)) == RunLimits(10, 5, 2.0, 30)
    assert RunLimits(10, None, 2.0, 60).or_else(RunLimits(20, 5, None, 30)) == RunLimits(10, 5, 2.0, 60)


def test_the_reached_limit_is_named() -> None:
    spent = Spent(turns=5, usage=Usage(input=70, output=30), cost_usd=0.2, before_s=9)
    assert spent.reached(RunLimits(turns=6, tokens=101)) is None
    assert spent.reached(RunLimits(turns=5)) == "turns"
    assert spent.reached(RunLimits(tokens=100)) == "tokens"
    assert spent.reached(RunLimits(cost_usd=0.2)) == "cost_usd"
    assert replace(spent, unpriced=True).reached(RunLimits(cost_usd=0.1)) is None  # it is not known
    assert spent.reached(RunLimits(timeout_s=8)) == "timeout_s"


def repeat(guard: LoopGuard, times: int, *, ok: bool = False, text: str = "no") -> list[tuple[bool, bool]]:
    warned = [guard.record("edit_file", '{"a": 1, "b": 2}', text, ok=ok) for _ in range(times)]
    return [(bool(word), stop) for word, stop in warned]


def test_the_same_failing_call_is_warned_about_then_stopped() -> None:
    seen = repeat(LoopGuard(), FAILING_STOPPED)
    assert next(place for place, (warned, _) in enumerate(seen, 1) if warned) == FAILING_WARNED
    assert [stop for _, stop in seen] == [False] * (FAILING_STOPPED - 1) + [True]


def test_the_order_of_arguments_does_not_matter() -> None:
    guard = LoopGuard()
    repeat(guard, FAILING_WARNED - 1)
    assert guard.record("edit_file", '{"b":2,"a":1}', "no", ok=False)[0]


@pytest.mark.parametrize("times", [50])
def test_repetition_after_changes_is_allowed(times: int) -> None:
    guard = LoopGuard()
    for turn in range(times):
        assert guard.record("run_tests", "{}", "1 failed", ok=True) == ("", False)
        guard.reset()  # by an edit
        assert guard.record("bash_output", '{"id": "bg_1"}', "", ok=True) == ("", False)
        assert guard.record("bash", '{"command": "make"}', f"error {turn}", ok=False) == ("", False)


def entries_of(*events: Event) -> list[Entry]:
    id_ = new_session_id()
    return [Entry(id_, seq, seq * 1_000_000, event, "") for seq, event in enumerate(events, start=1)]


def reply(**fields: object) -> ModelReplied:
    return ModelReplied(run_id="r", turn=1, input_tokens=10, output_tokens=5, duration_s=2, **fields)  # type: ignore[arg-type]


def test_the_usage_of_a_run_is_read_from_its_log() -> None:
    returned = ToolReturned(run_id="r", call_id="c", tool="bash", ok=True, text="", duration_s=3)
    short = ContextCompacted(run_id="r", upto_seq=3, summary="s", input_tokens=100, cost_usd=0.5)
    log = entries_of(
        RunStarted(run_id="q", prompt="", persona="", model=""),
        reply(cost_usd=9),
        RunStarted(run_id="r", prompt="", persona="", model=""),
        reply(cost_usd=0.25),
        returned,
        short,
    )
    spent = spent_before(log)
    assert (spent.turns, spent.usage, spent.cost) == (1, Usage(input=110, output=5), 0.75)
    assert spent.before_s == 5  # without the hours until it was resumed
    ended = RunEnded(run_id="r", outcome="cancelled", duration_s=7)
    assert spent_before([*log, *entries_of(ended, reply(), returned)]).before_s == 12
    assert spent_before([*log, *entries_of(ended, reply())]).cost is None


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("limits", "words", "turns"),
    [
        (RunLimits(cost_usd=0.01), "It cost $0.0135; the limit is $0.01.", 3),
        (RunLimits(tokens=2500), "It took 3,300 tokens; the limit is 2,500.", 3),
        (RunLimits(turns=2), "It took 2 turns, which is the limit.", 2),
    ],
)
async def test_a_limit_ends_a_run_and_a_higher_one_resumes_it(
    tmp_path: Path, limits: RunLimits, words: str, turns: int
) -> None:
    def think(request: Request) -> Turn:
        turns = sum(isinstance(message, FromModel) for message in request.messages)
        calls = (
            call("finish", title="Done") if turns == 5 else call("bash", command=f"echo {turns} >> ran"),
        )
        return Turn(calls=calls, usage=Usage(input=1000, output=100))

    # One whose price is known, at 3 and 15 dollars for a million: each turn is 0.0045.
    model = FunctionModel(think, name="anthropic:claude-sonnet-4-5")
    options = SetupOptions({"a": b""}, "[]", model=model, limits=limits)
    async with open_setup(tmp_path, options) as setup:
        session_id = setup.recorder.session_id
        ended = (await begin(setup, "run_1", "Go.")).ended
    assert (ended.outcome, ended.reason, ended.turns) == ("limit_reached", words, turns)
    assert ended.cost_usd == pytest.approx(0.0045 * turns)
    options.limits = DEFAULT_LIMITS
    async with open_setup(tmp_path, options, session_id) as setup:
        finished = await resume_run(setup, "run_1", await entries(setup.recorder))
        ran = await setup.context.workspace.read_small("ran")
    assert (finished.ended.outcome, finished.ended.turns, ran) == ("done", 6, b"0\n1\n2\n3\n4\n")
    assert finished.ended.cost_usd == pytest.approx(0.0045 * 6)
