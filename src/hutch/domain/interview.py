"""The state of an interview and its clock, computed from given times: nothing here reads a clock."""

from dataclasses import field, replace
from typing import Literal

from hutch.domain.ids import SessionId
from hutch.domain.interview_plan import InterviewPlan
from hutch.domain.interview_question import Level
from hutch.system.lazy_dataclass import dataclass

Phase = Literal["planned", "running", "paused", "ended", "closed"]
"""`planned` until it begins; `ended`: the candidate has finished, assessors rate; `closed`: nothing more is
added to its record."""
OPEN_PHASES: tuple[Phase, ...] = ("planned", "running", "paused")


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewClock:
    """The time that a candidate has worked. It stands during pauses, and while the candidate is offline as
    long as the plan's allowance lasts."""

    ran_ms: int = 0  # until `since_ms`
    since_ms: int | None = None  # None while it stands
    question_from_ms: int = 0  # when the current question was opened, by this clock
    extra_ms: int = 0  # added to the interview
    question_extra_ms: int = 0  # added to the current question
    credited_ms: int = 0  # for time offline, so far
    offline_since_ms: int | None = None

    def elapsed_ms(self, now_ms: int, allowance_ms: int) -> int:
        """By this clock; `allowance_ms` is the most that may be credited in the whole interview."""
        if self.since_ms is None:
            return self.ran_ms
        return self.ran_ms + max(0, now_ms - self.since_ms) - self.credit_ms(now_ms, allowance_ms)

    def credit_ms(self, now_ms: int, allowance_ms: int) -> int:
        """The credit for the current time offline."""
        if self.offline_since_ms is None or self.since_ms is None:
            return 0
        offline_ms = now_ms - max(self.since_ms, self.offline_since_ms)
        return max(0, min(offline_ms, allowance_ms - self.credited_ms))

    def started(self, now_ms: int) -> "InterviewClock":
        return self if self.since_ms is not None else replace(self, since_ms=now_ms)

    def stopped(self, now_ms: int, allowance_ms: int) -> "InterviewClock":
        """Stop the clock from now on. Time offline until now is credited."""
        credit = self.credit_ms(now_ms, allowance_ms)
        ran = self.elapsed_ms(now_ms, allowance_ms)
        return replace(
            self, ran_ms=ran, since_ms=None, credited_ms=self.credited_ms + credit, offline_since_ms=None
        )

    def online(self, now_ms: int, allowance_ms: int) -> "InterviewClock":
        """The candidate is back."""
        if self.offline_since_ms is None or self.since_ms is None:
            return replace(self, offline_since_ms=None)
        return self.stopped(now_ms, allowance_ms).started(now_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interview:
    """An interview. Its id is that of its room: the session whose log holds the interview's events."""

    id: SessionId
    owner: str
    plan: InterviewPlan
    phase: Phase = "planned"
    candidate: str = ""  # the user's id, once someone has accepted the invitation
    number: int = 0  # of the current question, from 1
    question: str = ""
    language: str = ""
    level: Level = "consultant"
    workspace: str = ""  # the session of the current question and language
    question_minutes: int | None = None  # of the current question; None: no limit of its own
    minutes: int = 0  # of the whole interview, without extra time
    clock: InterviewClock = field(default_factory=InterviewClock)
    consented: bool = False
    proposal: str = ""  # an unanswered proposal of a level: its number and the level, `3 pair`
    offer: str = ""  # an unanswered offer of help: its number and kind
    counter: int = 0  # of proposals and offers
    untested: tuple[str, ...] = ()  # workspaces whose hidden tests are still to be run
    sealed: bool = False  # the heads of all its logs are in the record
    end_reason: str = ""
    created_ms: int = 0
    begun_ms: int = 0
    ended_ms: int = 0
    version: int = 0  # rises with every change

    @property
    def allowance_ms(self) -> int:
        return self.plan.max_credit_minutes * 60_000

    def elapsed_ms(self, now_ms: int) -> int:
        return self.clock.elapsed_ms(now_ms, self.allowance_ms)

    def counts_time(self, now_ms: int) -> bool:
        """False in a pause, and while time offline is credited; true again when the allowance is used up."""
        return self.elapsed_ms(now_ms + 1) > self.elapsed_ms(now_ms)

    def remaining_ms(self, now_ms: int) -> int:
        """Until the interview ends."""
        whole = self.plan.with_extra(self.minutes) + self.clock.extra_ms
        return max(0, whole - self.elapsed_ms(now_ms))

    def question_remaining_ms(self, now_ms: int) -> int | None:
        """Until the current question ends; None if it has no limit of its own."""
        if self.question_minutes is None:
            return None
        whole = self.plan.with_extra(self.question_minutes) + self.clock.question_extra_ms
        used = self.elapsed_ms(now_ms) - self.clock.question_from_ms
        return min(max(0, whole - used), self.remaining_ms(now_ms))

    def is_over(self, now_ms: int) -> bool:
        """True if the time of the interview or of its current question is used up."""
        return self.remaining_ms(now_ms) == 0 or self.question_remaining_ms(now_ms) == 0

    @property
    def is_last_question(self) -> bool:
        return self.number >= len(self.plan.questions)


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewWorkspace:
    """The session in which a question is worked on in one language."""

    interview: SessionId
    number: int  # of the question, from 1
    question: str
    language: str
    session_id: SessionId
    digest: str = ""  # of the question's files when it was opened
