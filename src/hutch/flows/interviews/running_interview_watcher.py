"""Watches running interviews: their clocks, the candidates' connections, and when to propose or offer help.

It takes a tick every few seconds, at the end of a time limit, and after each step of an interview. All of its
state can be lost: it is rebuilt from the rows and the logs.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.events import (
    Event,
    HelpDismissed,
    LevelChanged,
    LevelDeclined,
    RanTests,
    UnknownEvent,
)
from hutch.domain.ids import SessionId
from hutch.domain.interview import Interview
from hutch.flows.interview_questions.question_test_runs import measure_growth
from hutch.flows.interviews.candidate_work_observer import CandidateWorkObserver, Observed, clock_s
from hutch.flows.interviews.crash_safe_interview_steps import repair_or_log, stop_left_workspaces
from hutch.flows.interviews.help_offer_conditions import HelpKind
from hutch.flows.interviews.hidden_test_runs import run_untested
from hutch.flows.interviews.interview_conduct import end_by_clock, go_on
from hutch.flows.interviews.interview_erasure import erase_expired
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.interviews.interview_workspaces import levels_of, open_ahead_if_possible
from hutch.flows.interviews.level_and_help_decisions import offer_help, propose_level, record_score
from hutch.flows.interviews.lobby_and_presence import OFFLINE_MS, go_offline, note_sign
from hutch.flows.interviews.work_beside_ticks import WorkBesideTicks
from hutch.flows.interviews.workspace_file_copy import copy_work
from hutch.flows.run_and_log_lookup import read_log

TICK_S = 10.0
ERASURE_INTERVAL_MS = 3_600_000
SHOWN_STEP = 0.1  # the score is recorded again when it differs by so much
logger = structlog.get_logger()


class InterviewWatch:
    """The watch of one server."""

    def __init__(self, interviews: InterviewServices, *, tick_s: float = TICK_S) -> None:
        self._interviews = interviews
        self._tick_s = tick_s
        self._observers: dict[str, CandidateWorkObserver] = {}  # by interview
        self._rooms: dict[str, str] = {}  # the interview of each watched workspace
        self._seen: defaultdict[str, list[Observed]] = defaultdict(list)  # events of workspaces
        self._beside = WorkBesideTicks(interviews)
        self._next_erasure_ms = 0
        self._over_ms: dict[str, float] = {}  # when the time of running interviews is over

    async def run(self) -> None:
        """Watch until cancelled."""
        interviews, loop = self._interviews, asyncio.get_running_loop()
        full_at_s = loop.time()  # others that wake the watch must not put it off
        async with self.listening():
            while True:
                ids: set[str] | None = set(interviews.changed)
                if loop.time() >= full_at_s:
                    ids, full_at_s = None, loop.time() + self._tick_s
                interviews.changed.clear()
                interviews.wake.clear()
                wait_s = await self.tick(ids)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(wait_s, max(0.0, full_at_s - loop.time()))):
                        await interviews.wake.wait()

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[None]:
        """Take in the events of workspaces within the block."""
        listeners = self._interviews.services.log.listeners
        listeners.append(self._note)
        try:
            yield
        finally:
            listeners.remove(self._note)
            await self._beside.cancel()

    def _note(self, session_id: SessionId, events: Sequence[Event | UnknownEvent]) -> None:
        """Remember events of workspaces for the next tick, and tell observers about decisions."""
        if room := self._rooms.get(session_id):
            now_ms = self._interviews.now_ms()
            self._seen[session_id] += [(event, now_ms) for event in events]
            if any(isinstance(event, RanTests) for event in events):
                self._interviews.changed.add(room)
                self._interviews.wake.set()
        elif observer := self._observers.get(session_id):
            for event in events:
                _decided(observer, event)

    async def tick(self, ids: set[str] | None = None) -> float:
        """Handle these interviews and those whose time is over, or all. Returns the seconds until the next
        tick is due."""
        interviews = self._interviews
        self._beside.prepare_languages()
        if ids is None:
            await self._erase_expired()
            found = await interviews.rows.unfinished()
            self._forget_others(found)
        else:
            ids |= {id for id, at_ms in self._over_ms.items() if at_ms <= interviews.now_ms()}
            found = await interviews.rows.unfinished(ids)
            for id in ids:
                self._over_ms.pop(id, None)
        for interview in found:
            if interview.phase == "running":
                now_ms = interviews.now_ms()
                self._over_ms[interview.id] = now_ms + max(50, _until_over_ms(interview, now_ms))
            try:
                await self._handle(interview)
            except HutchError as error:
                logger.warning("interview.tick_failed", session_id=interview.id, error=str(error))
            except Exception:
                logger.exception("interview.tick_failed", session_id=interview.id)
        next_ms = min(self._over_ms.values(), default=math.inf) - interviews.now_ms()
        return min(self._tick_s, max(0.05, next_ms / 1000))

    async def _erase_expired(self) -> None:
        if self._interviews.now_ms() >= self._next_erasure_ms:
            self._next_erasure_ms = self._interviews.now_ms() + ERASURE_INTERVAL_MS
            await erase_expired(self._interviews)

    def _forget_others(self, found: Sequence[Interview]) -> None:
        """Forget the workspaces and the times of interviews that are over, or at another question."""
        current = {each.workspace for each in found}
        for workspace in [each for each in self._rooms if each not in current]:
            self._observers.pop(self._rooms.pop(workspace), None)
            self._seen.pop(workspace, None)
        self._over_ms.clear()

    async def _handle(self, interview: Interview) -> None:
        interviews = self._interviews
        if interview.phase == "running":
            interview = await self._check_presence(interview)
            if interview.is_over(interviews.now_ms()):
                over = interview.remaining_ms(interviews.now_ms()) == 0
                interview = await (
                    end_by_clock(interviews, interview)
                    if over
                    else go_on(interviews, interview, after=interview.number, by="")
                )
        await repair_or_log(interviews, interview)
        await stop_left_workspaces(interviews, interview)
        if interview.untested:
            self._beside.start(interview.id, self._test_hidden(interview))
        if interview.phase == "running":
            await open_ahead_if_possible(interviews, interview)
            await self._decide(interview)

    async def _check_presence(self, interview: Interview) -> Interview:
        """Note the candidate's work as a sign, and stop the clock if there was none for long."""
        interviews, now_ms = self._interviews, self._interviews.now_ms()
        observer = await self._observer(interview)
        worked_ms = await observer.note(self._seen.pop(interview.workspace, []), interview, now_ms)
        seen_ms = await interviews.rows.seen_ms(interview.id)
        if not seen_ms:  # a client without heartbeats
            return interview
        if worked_ms > seen_ms:
            return await note_sign(interviews, interview, worked_ms)
        if now_ms - seen_ms > OFFLINE_MS:
            return await go_offline(interviews, interview, seen_ms)
        return interview

    async def _observer(self, interview: Interview) -> CandidateWorkObserver:
        """The observer of the current workspace; a new one reads the log from its beginning."""
        found = self._observers.get(interview.id)
        if found is not None and found.workspace == interview.workspace:
            return found
        interviews, now_ms = self._interviews, self._interviews.now_ms()
        levels = levels_of(interview, await interviews.question(interview.question))
        made = CandidateWorkObserver(interviews.policy, interview, levels, interviews.services.host)
        self._rooms = {key: room for key, room in self._rooms.items() if room != interview.id}
        self._rooms[interview.workspace] = interview.id
        self._seen.pop(interview.workspace, None)
        entries = await read_log(interviews.services.log, made.workspace)
        await made.note([(entry.event, entry.at_ms) for entry in entries], interview, now_ms)
        self._observers[interview.id] = made
        return made

    async def _decide(self, interview: Interview) -> None:
        """Propose a level or offer help, if one is due."""
        interviews, now_ms = self._interviews, self._interviews.now_ms()
        if interview.clock.offline_since_ms is not None or not interview.plan.ai:
            return
        observer = await self._observer(interview)
        now_s = clock_s(interview, now_ms, now_ms)
        score = observer.proposals.work.score(now_s)
        if abs(score.value - observer.shown_score) >= SHOWN_STEP:
            await record_score(interviews, interview, score, now_s)
            observer.shown_score = score.value
        if interview.plan.adaptive and not interview.proposal:
            proposal = observer.proposals.decide(now_s)
            if proposal is not None:
                interview = await propose_level(interviews, interview, proposal)
        if interview.plan.proactive_help:
            if (offer := observer.help.decide(now_s)) is not None:
                await offer_help(interviews, interview, offer)
            elif (
                observer.proposals.work.all_pass and observer.measured_s < observer.proposals.work.last_run_s
            ):
                self._beside.start(interview.id, self._measure(interview, observer))

    async def _measure(self, interview: Interview, observer: CandidateWorkObserver) -> None:
        """Measure how the time of a correct solution grows."""
        interviews = self._interviews
        observer.measured_s = observer.proposals.work.last_run_s
        question = await interviews.question(interview.question)
        work = await copy_work(interviews, observer.workspace)
        observer.help.growth = await measure_growth(
            interviews.executor, question, interview.language, work, limits=interviews.limits
        )

    async def _test_hidden(self, interview: Interview) -> None:
        await run_untested(self._interviews, interview)


def _until_over_ms(interview: Interview, now_ms: int) -> int:
    own = interview.question_remaining_ms(now_ms)
    return interview.remaining_ms(now_ms) if own is None else own


def _decided(observer: CandidateWorkObserver, event: Event | UnknownEvent) -> None:
    at_s = getattr(event, "elapsed_ms", 0) / 1000
    match event:
        case LevelChanged(level=level):
            observer.proposals.set_level(level, at_s)
        case LevelDeclined():
            observer.proposals.decline(at_s)
        case HelpDismissed(kind=kind):
            known: HelpKind = kind  # type: ignore[assignment]  # written from an offer
            observer.help.dismiss(known, at_s)
