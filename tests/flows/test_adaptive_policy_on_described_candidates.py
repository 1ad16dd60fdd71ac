"""The help policy on candidates made from descriptions, through the server's own watch of interviews.

Each candidate has an interview of their own, with a workspace, real changes of files, and test runs in its
log. Only the clock is moved by the test. `make soak` runs 50 candidates of each behaviour, `make test` one.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from hutch import settings
from hutch.app import vault_secrets_and_redactor
from hutch.app.forges import reach_of
from hutch.app.session_host import local_host, services_of
from hutch.app.throwaway_jail_code_executor import code_executor
from hutch.domain.events import LevelChanged, RanTests
from hutch.domain.ids import SessionId
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.test_run_events import CaseResult
from hutch.domain.user import Caller, scopes_of
from hutch.flows.interviews.interview_conduct import begin
from hutch.flows.interviews.interview_planning_and_invitations import plan_interview
from hutch.flows.interviews.interview_services import InterviewServices, open_interviews
from hutch.flows.interviews.level_and_help_decisions import answer_proposal
from hutch.flows.interviews.lobby_and_presence import check_lobby
from hutch.flows.interviews.running_interview_watcher import TICK_S, InterviewWatch
from hutch.flows.run_and_log_lookup import read_log
from hutch.flows.user_accounts import LOCAL, Accounts
from hutch.sessions.file_and_command_requests import WriteFile
from hutch.store.event_log import open_log
from hutch.store.shares import Shares
from hutch.system.clock_without_jumps import wall_ms
from tests.flows.candidates_by_described_behaviour import (
    QUESTION_S,
    Candidate,
    Tried,
    Typed,
    candidates,
)
from tests.new_database import place_database

pytestmark = pytest.mark.anyio

AT_ONCE = 50  # interviews
WITHIN_S = 360.0
FILE = "solution.py"


@dataclass
class Outcome:
    """The changes of level in one interview, in seconds of its clock."""

    behaviour: str
    first_failure_s: float
    raised_s: list[float] = field(default_factory=list)
    changes: int = 0

    @property
    def stuck_for_s(self) -> float:
        """From the first failed run until the level was raised."""
        return self.raised_s[0] - self.first_failure_s if self.raised_s else float("inf")


class Interviewed:
    """A candidate in a running interview."""

    def __init__(self, candidate: Candidate, interview_id: str, user_id: str, workspace: str) -> None:
        self.candidate, self.id, self.user_id = candidate, interview_id, user_id
        self.workspace = SessionId(workspace)
        self.actions, self.text = list(candidate.actions), ""

    async def work_until(self, interviews: InterviewServices, now_s: float) -> None:
        """Everything that the candidate does until then. Typing between two runs is one change."""
        changed = False
        while self.actions and self.actions[0].at_s <= now_s:
            action = self.actions.pop(0)
            if isinstance(action, Typed):
                self.text = self.text[: max(0, len(self.text) - action.deleted)] + _words(action.added)
                changed = True
                continue
            if changed:
                await self.save(interviews)
                changed = False
            await interviews.services.log.append(self.workspace, [_run(action, self.user_id)])
        if changed:
            await self.save(interviews)

    async def save(self, interviews: InterviewServices) -> None:
        written = WriteFile(FILE, self.text.encode())
        await interviews.services.host.call(self.workspace, written, by=self.user_id)


def _words(count: int) -> str:
    return ("value = value + 1\n" * (count // 18 + 1))[:count]


def _run(action: Tried, by: str) -> RanTests:
    passed = [CaseResult(suite="s", name=name, outcome="passed") for name in sorted(action.passed)]
    failed = [
        CaseResult(suite="s", name=name, outcome="failed", message=text) for name, text in action.failures
    ]
    return RanTests(
        run_id="",
        command="pytest",
        ok=not failed,
        passed=len(passed),
        failed=len(failed),
        skipped=0,
        total=len(passed) + len(failed),
        by=by,
        cases=(*failed, *passed),
    )


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_ms = wall_ms()

    def __call__(self) -> int:
        return self.now_ms


@asynccontextmanager
async def interviews_at(place: Path, clock: Clock) -> AsyncIterator[tuple[InterviewServices, Accounts]]:
    model = place / "model.json"
    model.write_text(json.dumps({"replies": [{"text": "Done."}]}))
    loaded = settings.load(
        {"model": f"scripted:{model}", "sessions": {"open": AT_ONCE + 20}},
        environ={"HUTCH_HOME": str(place / "home")},
    )
    place_database(loaded.paths.data)
    paths, redactor = loaded.paths, vault_secrets_and_redactor.redactor(loaded)
    async with (
        open_log(paths.database, paths.blobs, paths.signing_key) as log,
        local_host(loaded, log, redactor) as host,
    ):
        services = services_of(loaded, log, host, redactor, reach=reach_of(loaded))
        made = open_interviews(services, (), code_executor(loaded), loaded.settings.execution)
        yield replace(made, now_ms=clock), Accounts(log)


async def _begin(
    interviews: InterviewServices, accounts: Accounts, owner: Caller, candidate: Candidate
) -> Interviewed:
    plan = InterviewPlan.model_validate(
        {"title": "x", "questions": [{"id": "meeting-rooms", "language": "python"}], "minutes": 120}
    )
    interview = await plan_interview(interviews, owner, plan)
    user = await accounts.add_user(candidate.name.replace(" ", "-"), "candidate", LOCAL)
    await Shares(interviews.services.rows).set(interview.id, user.id, "candidate", created_by="")
    caller = Caller(user, scopes_of(user.role), "local", "test")
    await check_lobby(interviews, caller, interview.id)
    begun = await begin(interviews, owner, interview.id)
    made = Interviewed(candidate, begun.id, user.id, begun.workspace)
    await interviews.services.host.open(made.workspace)
    return made


async def conduct(place: Path, group: Sequence[Candidate]) -> list[Outcome]:
    """All of them at once, on one server; each proposal is accepted."""
    await asyncio.to_thread(place.mkdir)
    clock = Clock()
    async with interviews_at(place, clock) as (interviews, accounts):
        user = await accounts.ensure_owner("owner")
        owner = Caller(user, scopes_of(user.role), "local", "test")
        people = [await _begin(interviews, accounts, owner, each) for each in group]
        watch, began_ms = InterviewWatch(interviews), clock.now_ms
        async with watch.listening():
            await watch.tick()
            while (now_s := (clock.now_ms - began_ms) / 1000) < QUESTION_S:
                await asyncio.gather(*(each.work_until(interviews, now_s) for each in people))
                await watch.tick()
                for interview in await interviews.rows.unfinished():
                    if interview.proposal:
                        number = int(interview.proposal.partition(" ")[0])
                        await answer_proposal(interviews, owner, interview.id, number, accept=True)
                clock.now_ms += round(TICK_S * 1000)
        return [await _outcome(interviews, each) for each in people]


async def _outcome(interviews: InterviewServices, interviewed: Interviewed) -> Outcome:
    candidate = interviewed.candidate
    outcome = Outcome(candidate.behaviour, candidate.first_failure_s())
    for entry in await read_log(interviews.services.log, SessionId(interviewed.id)):
        if isinstance(entry.event, LevelChanged):
            outcome.changes += 1
            if (entry.event.before, entry.event.level) in (("consultant", "pair"), ("pair", "copilot")):
                outcome.raised_s.append(entry.event.elapsed_ms / 1000)
    return outcome


def figures(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    by: defaultdict[str, list[Outcome]] = defaultdict(list)
    for each in outcomes:
        by[each.behaviour].append(each)
    stuck = sorted(each.stuck_for_s for each in by["stuck"])
    return {
        "stuck": len(stuck),
        "raised within 6 min of the first failed run": sum(each <= WITHIN_S for each in stuck),
        "seconds until raised: median, slowest": (stuck[len(stuck) // 2], stuck[-1]),
        **{
            f"{kind}: candidates, raised, most changes": (
                len(found),
                sum(bool(each.raised_s) for each in found),
                max(each.changes for each in found),
            )
            for kind, found in by.items()
        },
    }


async def check(tmp_path: Path, count: int) -> None:
    everyone = list(candidates(count))
    outcomes: list[Outcome] = []
    for number in range(0, len(everyone), AT_ONCE):
        outcomes += await conduct(tmp_path / str(number), everyone[number : number + AT_ONCE])
    found = json.dumps(figures(outcomes), indent=1)
    await asyncio.to_thread((tmp_path / "figures.json").write_text, found)
    stuck = [each for each in outcomes if each.behaviour == "stuck"]
    assert sum(each.stuck_for_s <= WITHIN_S for each in stuck) >= 0.98 * len(stuck), found
    assert not any(each.raised_s for each in outcomes if each.behaviour == "slow thinker"), found
    assert all(each.changes < 5 for each in outcomes if each.behaviour == "noisy"), found


async def test_a_candidate_of_each_behaviour_gets_help_only_when_stuck(tmp_path: Path) -> None:
    await check(tmp_path, 1)


@pytest.mark.soak
async def test_two_hundred_candidates_get_help_only_when_stuck(tmp_path: Path) -> None:
    await check(tmp_path, 50)
