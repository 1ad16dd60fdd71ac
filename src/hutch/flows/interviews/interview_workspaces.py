"""Opens the workspaces of an interview: one session for each question and language.

A workspace can be opened before it is needed. The candidate has no share of it until a step of the interview
makes it the current one.
"""

import asyncio

from hutch.domain.errors import HutchError
from hutch.domain.interview import Interview, InterviewWorkspace
from hutch.domain.interview_question import LEVELS, Level, Question
from hutch.domain.session import Delivery, NewSession
from hutch.domain.user_given_starter_files import StarterFile
from hutch.flows.interviews.interview_services import InterviewServices
from hutch.flows.sessions import create_with_run
from hutch.store.interviews import NewWorkspace

STATEMENT = "QUESTION.md"


def levels_of(interview: Interview, question: Question) -> tuple[Level, ...]:
    """The levels that both the plan and the question allow; those of the plan if there is none."""
    both = tuple(level for level in LEVELS if level in interview.plan.levels and level in question.levels)
    return both or interview.plan.levels


def first_level(interview: Interview, question: Question) -> Level:
    """The level at which a question begins: that of the plan, or the lowest that is allowed."""
    allowed = levels_of(interview, question)
    return interview.plan.first_level if interview.plan.first_level in allowed else allowed[0]


def language_of(interview: Interview, number: int, question: Question) -> str:
    """The language in which a question begins."""
    planned = interview.plan.questions[number - 1].language
    if planned:
        return planned
    return interview.language if interview.language in question.languages else question.languages[0]


async def ensure_workspace(
    interviews: InterviewServices, interview: Interview, number: int, question: Question, language: str
) -> InterviewWorkspace:
    """The workspace of a question and language; it is opened if there is none."""
    async with interviews.locks.setdefault(interview.id, asyncio.Lock()):
        if found := await _find(interviews, interview, number, language):
            return found
        owner = await interviews.owner(interview)
        new = _new_session(interview, question, language)
        also = NewWorkspace(interview.id, number, question.id, language, question.digest)
        made = await create_with_run(interviews.services, owner, new, also=also)
        return InterviewWorkspace(
            interview=interview.id,
            number=number,
            question=question.id,
            language=language,
            session_id=made.session.id,
            digest=question.digest,
        )


async def open_ahead(interviews: InterviewServices, interview: Interview) -> None:
    """Open the workspace of the next question, so that it is ready when it is needed."""
    number = interview.number + 1
    if interview.phase not in ("planned", "running") or number > len(interview.plan.questions):
        return
    if any(each.number == number for each in await interviews.rows.workspaces(interview.id)):
        return
    question = await interviews.question(interview.plan.questions[number - 1].id)
    await ensure_workspace(interviews, interview, number, question, language_of(interview, number, question))


async def open_ahead_if_possible(interviews: InterviewServices, interview: Interview) -> None:
    """The same; if it fails, the question's own step reports why."""
    try:
        await open_ahead(interviews, interview)
    except HutchError:
        return


async def _find(
    interviews: InterviewServices, interview: Interview, number: int, language: str
) -> InterviewWorkspace | None:
    for each in await interviews.rows.workspaces(interview.id):
        if (each.number, each.language) == (number, language):
            return each
    return None


def _new_session(interview: Interview, question: Question, language: str) -> NewSession:
    plan = interview.plan
    expectations = f"{plan.expectations}\n\n" if plan.expectations else ""
    job = f" for the role {plan.role}" if plan.role else ""
    return NewSession(
        purpose=f"{plan.title}: {question.title} ({language})",
        role=f"You help a candidate who is interviewed{job}. An assessor reads this conversation.",
        company=plan.company,
        expectations=f"{expectations}The question, as the candidate sees it in {STATEMENT}:\n\n"
        f"{question.statement}",
        files={
            **question.candidate_files(language),
            STATEMENT: StarterFile(question.statement.encode()),
        },
        persona=first_level(interview, question),
        model=plan.model,
        delivery=Delivery(titled=True),
    )
