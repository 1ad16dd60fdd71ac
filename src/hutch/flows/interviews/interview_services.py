"""What the flows of interviews use, besides the services of every flow."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Protocol

from hutch.domain.errors import NotFound
from hutch.domain.interview import Interview
from hutch.domain.question import Question
from hutch.domain.starter_files import StarterFile
from hutch.domain.user import Caller, scopes_of
from hutch.flows.flow_services import Services
from hutch.flows.interviews.adaptive_policy import AdaptivePolicy
from hutch.store.interviews import Interviews
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass
from hutch.system.steady_clock import wall_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenCase:
    """One hidden test."""

    name: str
    passed: bool
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HiddenResult:
    """The hidden tests of one question; `reason` says why they could not be run."""

    cases: tuple[HiddenCase, ...] = ()
    reason: str = ""

    @property
    def passed(self) -> int:
        return sum(case.passed for case in self.cases)


class RunHiddenTests(Protocol):
    """Runs the hidden tests of a question on a copy of the work, in a jail of its own."""

    async def __call__(
        self, question: Question, language: str, files: Mapping[str, StarterFile]
    ) -> HiddenResult: ...


FindMissing = Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
"""The languages, of those given, whose programs are missing on this machine, each with what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InterviewServices:
    """The services of flows, the question banks, the adaptive policy, and the runners of hidden tests."""

    services: Services
    load_question: Callable[[str], Question]  # by its id. Blocks the thread.
    policy: AdaptivePolicy
    run_hidden_tests: RunHiddenTests
    find_missing: FindMissing
    access_changed: list[Callable[[str], None]] = field(default_factory=list)  # called with a user's id
    locks: dict[str, asyncio.Lock] = field(default_factory=dict)  # of interviews, while one opens a workspace
    now_ms: Callable[[], int] = wall_ms

    @property
    def rows(self) -> Interviews:
        return Interviews(self.services.rows)

    async def question(self, id: str) -> Question:
        return await asyncio.to_thread(self.load_question, id)

    def clean(self, text: str) -> str:
        """A text without secrets."""
        return self.services.redactor.redact(text)

    def notify(self, interview: Interview) -> None:
        """Tell open connections that the candidate may have other rights now."""
        for notify in self.access_changed:
            notify(interview.candidate)

    async def owner(self, interview: Interview) -> Caller:
        """The interview's owner, in whose name its workspaces are opened and changed."""
        user = await Users(self.services.rows).get(interview.owner)
        if user.disabled:
            raise NotFound(f"{user.name}, the owner of the interview {interview.id}, is disabled.")
        return Caller(user, scopes_of(user.role), "local", "interview")
