"""The services of the flows of interviews, besides those of every flow."""

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from functools import partial
from pathlib import Path

from hutch.domain.errors import NotFound
from hutch.domain.given_code_test_case import Language
from hutch.domain.interview import Interview
from hutch.domain.interview_question import Question
from hutch.domain.user import Caller, scopes_of
from hutch.flows.code_execution.code_executor import CodeExecutor
from hutch.flows.code_execution.execution_limits_and_results import (
    DEFAULT_LIMITS,
    ExecutionLimits,
    LimitFields,
    execution_limits,
)
from hutch.flows.flow_services import Services
from hutch.flows.interview_questions.question_bank_lookup import FoundQuestion, find_question, find_questions
from hutch.flows.interviews.struggle_and_help_thresholds import AdaptivePolicy, read_policy
from hutch.store.interviews import Interviews
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

QUESTION_CACHE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewServices:
    """The services of flows, the question banks, the adaptive policy, and the runner of hidden tests."""

    services: Services
    load_question: Callable[[str], Question]  # by its id. Blocks the thread.
    find_questions: Callable[[], Sequence[FoundQuestion]]  # all of them. Blocks the thread.
    policy: AdaptivePolicy
    executor: CodeExecutor  # of hidden tests
    limits: ExecutionLimits = DEFAULT_LIMITS  # of one run of hidden tests
    access_changed: list[Callable[[str], None]] = field(default_factory=list)  # called with a user's id
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)  # of interviews, while one opens a workspace
    questions: dict[str, tuple[float, Question]] = field(default_factory=dict)  # when read, and the question
    ending: set[str] = field(default_factory=set)  # workspaces that were told to end
    changed: set[str] = field(default_factory=set)  # interviews that have taken a step since the last tick
    unprepared: set[Language] = field(default_factory=set)  # languages that candidates in lobbies may use
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # set when `changed` is not empty
    now_ms: Callable[[], int] = wall_ms

    @property
    def rows(self) -> Interviews:
        return Interviews(self.services.rows)

    async def question(self, id: str) -> Question:
        """A question by its id. It is read again after a few seconds, since people edit questions."""
        read_s, found = self.questions.get(id, (0.0, None))
        if found is None or time.monotonic() - read_s > QUESTION_CACHE_S:
            found = await asyncio.to_thread(self.load_question, id)
            self.questions[id] = (time.monotonic(), found)
        return found

    def prepare(self, languages: Iterable[Language]) -> None:
        """Have the watch compile now what the first run in these languages would otherwise wait for."""
        self.unprepared.update(languages)
        self.wake.set()

    async def missing_programs(self, languages: Sequence[str]) -> dict[str, str]:
        """The languages, of these, that this machine cannot run, each with what to do."""
        missing = (await self.executor.toolchains()).missing
        return {str(each.language): str(each) for each in missing if each.language in languages}

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return self.services.redactor.redact(text)

    def notify(self, interview: Interview) -> None:
        """Tell open connections, since the candidate may have other rights now, and the watch."""
        self.changed.add(interview.id)
        self.wake.set()
        self.check_access([interview.candidate])

    def check_access(self, user_ids: Iterable[str]) -> None:
        """Check the open connections of these users."""
        for user_id in user_ids:
            for notify in self.access_changed:
                notify(user_id)

    async def owner(self, interview: Interview) -> Caller:
        """The interview's owner, in whose name its workspaces are opened and changed."""
        user = await Users(self.services.rows).get(interview.owner)
        if user.disabled:
            raise NotFound(f"{user.name}, the owner of the interview {interview.id}, is disabled.")
        return Caller(user, scopes_of(user.role), "local", "interview")


def open_interviews(
    services: Services, banks: Sequence[str | Path], executor: CodeExecutor, limits: LimitFields
) -> InterviewServices:
    """The services of interviews, with the questions of these banks and the policy that comes with Hutch."""
    return InterviewServices(
        services=services,
        load_question=partial(find_question, banks),
        find_questions=partial(find_questions, banks),
        policy=read_policy(),
        executor=executor,
        limits=execution_limits(limits),
    )
