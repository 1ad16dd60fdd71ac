"""When another level of help is proposed, by hand-made cases and by synthetic candidates."""

import random
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.interview_question import LEVELS
from hutch.flows.interviews.help_level_proposals import LevelProposal, LevelProposals
from hutch.flows.interviews.struggle_and_help_thresholds import DEFAULT_POLICY, AdaptivePolicy, read_policy
from hutch.flows.interviews.struggle_score import ObservedEdit, ObservedTests, ObservedWork
from tests.flows import synthetic_candidates
from tests.flows.synthetic_candidates import interview

CANDIDATES = 200


@pytest.fixture
def policy() -> AdaptivePolicy:
    return read_policy()


def failed(at_s: float, *passed: str) -> ObservedTests:
    return ObservedTests(at_s, ok=False, passed=frozenset(passed))


def run_until(
    levels: LevelProposals, work: list[ObservedTests | ObservedEdit], end_s: float
) -> LevelProposal | None:
    """The first proposal until `end_s`, with a decision every 10 s."""
    for now_s in range(0, int(end_s) + 1, 10):
        while work and work[0].at_s <= now_s:
            levels.work.observe(work.pop(0))
        if proposal := levels.decide(now_s):
            return proposal
    return None


def test_failing_again_and_again_raises_the_level_with_a_reason(policy: AdaptivePolicy) -> None:
    levels = LevelProposals(policy, LEVELS, "consultant")
    proposal = run_until(levels, [failed(60.0 * number) for number in range(1, 7)], 600)
    assert proposal is not None
    assert (proposal.direction, proposal.from_level, proposal.to_level) == ("up", "consultant", "pair")
    assert proposal.at_s <= 360
    assert proposal.reason == "4 failed test runs, and no new test passes for 4 min"


def test_idle_time_alone_raises_nothing(policy: AdaptivePolicy) -> None:
    levels = LevelProposals(policy, LEVELS, "consultant")
    assert run_until(levels, [failed(30.0), failed(60.0)], 7200) is None


def test_failing_runs_that_bring_progress_raise_nothing(policy: AdaptivePolicy) -> None:
    levels = LevelProposals(policy, LEVELS, "consultant")
    work = [failed(40.0 * number, *map(str, range(number))) for number in range(1, 30)]
    assert run_until(levels, list(work), 1160) is None


def test_progress_is_more_tests_that_pass_at_once_than_before(policy: AdaptivePolicy) -> None:
    work = ObservedWork(policy)
    work.observe(failed(100.0, "a", "b"))
    assert (work.progress_s, work.repeated) == (0.0, 1)  # what passes in the first run came with the question
    work.observe(failed(200.0, "a", "c"))
    assert (work.progress_s, work.repeated) == (0.0, 2)  # another test broke
    work.observe(failed(300.0, "a", "b", "c"))
    assert (work.progress_s, work.repeated) == (300.0, 0)


def test_a_declined_proposal_is_not_repeated_until_the_cooldown_has_passed(policy: AdaptivePolicy) -> None:
    levels = LevelProposals(policy, LEVELS, "consultant")
    work = [failed(50.0 * number) for number in range(1, 60)]
    first = run_until(levels, work, 600)
    assert first is not None
    levels.decline(first.at_s)
    for now_s in range(int(first.at_s), int(first.at_s + policy.cooldown.first_s), 10):
        while work and work[0].at_s <= now_s:
            levels.work.observe(work.pop(0))
        assert levels.decide(now_s) is None
    assert levels.level == "consultant"


def test_a_level_is_lowered_only_after_progress(policy: AdaptivePolicy) -> None:
    levels = LevelProposals(policy, LEVELS, "copilot")
    assert run_until(levels, [], 3600) is None
    done = ObservedTests(3700.0, ok=True, passed=frozenset({"a"}))
    levels.work.observe(failed(3650.0))
    levels.work.observe(done)
    proposals = [levels.decide(now_s) for now_s in range(3710, 3900, 10)]
    found = [each for each in proposals if each]
    assert found[0].direction == "down"
    assert (found[0].to_level, found[0].reason) == ("pair", "all visible tests pass")


def test_a_level_that_the_plan_does_not_allow_is_never_proposed(policy: AdaptivePolicy) -> None:
    work: list[ObservedTests | ObservedEdit] = [failed(30.0 * number) for number in range(1, 100)]
    assert run_until(LevelProposals(policy, ("consultant",), "consultant"), list(work), 2900) is None
    skipping = run_until(LevelProposals(policy, ("consultant", "copilot"), "consultant"), list(work), 2900)
    assert skipping is not None and skipping.to_level == "copilot"


def test_typing_delays_a_proposal_until_a_pause_but_not_for_long(policy: AdaptivePolicy) -> None:
    levels, rule = LevelProposals(policy, LEVELS, "consultant"), policy.raise_
    for number in range(1, 7):
        levels.work.observe(failed(60.0 * number))
    due_s = 361 + rule.for_s
    for now_s in range(361, int(due_s + rule.max_wait_s), 3):
        levels.work.observe(ObservedEdit(float(now_s), 5, 0))
        assert levels.decide(now_s) is None
    assert levels.decide(due_s + rule.max_wait_s + 3) is not None


def test_rewriting_the_same_text_adds_to_the_score(policy: AdaptivePolicy) -> None:
    calm, busy = ObservedWork(policy), ObservedWork(policy)
    for second in range(10, 60, 10):
        calm.observe(ObservedEdit(float(second), 40, 0))
        busy.observe(ObservedEdit(float(second), 40, 40))
    assert busy.score(60).value == pytest.approx(calm.score(60).value + policy.score.churn.weight)
    assert busy.score(400).churn == 0  # older edits do not count


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("", "`version` is missing"),
        ('version = "1"\nlevels = ["pair", "consultant"]\n', "levels must be some of"),
        ("version = [", "no valid TOML"),
    ],
)
def test_a_wrong_policy_is_refused_with_the_reason(tmp_path: Path, wrong: str, message: str) -> None:
    file = tmp_path / "policy.toml"
    rest = DEFAULT_POLICY.read_text().partition("[score]")[2]
    file.write_text(wrong + ("[score]" + rest if "levels" in wrong else ""))
    with pytest.raises(BadRequest, match=message):
        read_policy(file)


def test_stuck_candidates_are_offered_more_help_within_six_minutes(policy: AdaptivePolicy) -> None:
    stuck = [each for each in synthetic_candidates.candidates() if each.kind == "stuck"]
    late = [
        each.name for each in stuck if not interview(policy, each.work).raised_within(each.stuck_from_s, 360)
    ]
    assert len(late) <= 0.02 * len(stuck), late


@pytest.mark.parametrize("habit", [synthetic_candidates.slow_thinker, synthetic_candidates.idle])
def test_thinking_and_idling_raise_no_level(
    policy: AdaptivePolicy, habit: synthetic_candidates.Habit
) -> None:
    outcomes = [interview(policy, list(habit(random.Random(seed)))) for seed in range(CANDIDATES)]
    assert not any(each.proposals for each in outcomes)


@pytest.mark.parametrize("habit", [synthetic_candidates.noisy, synthetic_candidates.steady])
def test_levels_do_not_alternate(policy: AdaptivePolicy, habit: synthetic_candidates.Habit) -> None:
    outcomes = [interview(policy, list(habit(random.Random(seed)))) for seed in range(CANDIDATES)]
    assert max(len(each.proposals) for each in outcomes) < 5
