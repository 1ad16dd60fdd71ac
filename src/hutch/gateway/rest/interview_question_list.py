"""The questions that an interview can ask, for those who plan one. docs/questions.md describes them."""

import asyncio

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import Denied
from hutch.flows.interview_questions.question_bank_lookup import FoundQuestion
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Out, answer
from hutch.gateway.rest.base_route import router
from hutch.gateway.rest.interviews import interviews_of

routes = router("interviews")

PLANNERS = ("owner", "member", "assessor")


class ListedQuestion(Out):
    """A question of the bank; never its statement, solution or hidden tests."""

    id: str
    title: str
    minutes: int
    languages: list[str]
    levels: list[str]
    problem: str = Field(description="Why it cannot be asked; empty if it can.")


class QuestionList(Out):
    items: list[ListedQuestion]


@routes.get("/questions", response_model=QuestionList)
async def list_questions(request: Request, caller: Reader) -> Response:
    """The questions of the bank and those that come with Hutch, by id."""
    if caller.user.role not in PLANNERS:
        raise Denied(
            f"{caller.user.name} is {caller.user.role}. Only owners, members and assessors list questions."
        )
    found = await asyncio.to_thread(interviews_of(request).find_questions)
    return answer({"items": [_listed(each) for each in found]})


def _listed(found: FoundQuestion) -> ListedQuestion:
    question = found.question
    return ListedQuestion(
        id=found.name,
        title=question.title if question else found.name,
        minutes=question.time_minutes if question else 0,
        languages=list(question.languages) if question else [],
        levels=list(question.levels) if question else [],
        problem=found.problem,
    )
