"""An interview as a GraphQL type: plan, state, questions, events and report, each by the caller's role."""

from typing import Any, cast

import orjson
import strawberry
from strawberry.scalars import JSON

from hutch.flows import sessions
from hutch.flows.interviews.interview_planning_and_invitations import ShownInterview, show_interview
from hutch.flows.interviews.interview_report import make_report
from hutch.flows.interviews.interview_view import InterviewView, view_interview
from hutch.flows.log_visible_to_reader import read_page
from hutch.gateway.graphql.object_types import BigInt, Event, Node, node
from hutch.gateway.graphql.resolver_context import Info
from hutch.gateway.graphql.session_type import First, within
from hutch.gateway.request_and_response_bodies import to_json
from hutch.gateway.rest.interviews import ClockOut, InterviewOut, QuestionOut


@node(ClockOut)
class InterviewClock(Node):
    pass


@node(QuestionOut, "rubric")
class InterviewQuestion(Node):
    rubric: JSON


@node(InterviewOut, "question clock proposal offer workspaces people plan")
class Interview(Node):
    id: strawberry.ID
    question: InterviewQuestion | None
    clock: InterviewClock
    proposal: JSON | None
    offer: JSON | None
    workspaces: JSON
    people: JSON
    plan: JSON | None

    @classmethod
    def of(cls, value: InterviewView) -> "Interview":
        make: Any = cls
        parts = {
            "question": value.question and InterviewQuestion.of(value.question),
            "clock": InterviewClock.of(value.clock),
        }
        names = [name for name in cls.__annotations__ if name not in parts]
        return cast("Interview", make(**{name: getattr(value, name) for name in names}, **parts))

    @strawberry.field(description="The events of the room after a number, the oldest first.")
    async def events(self, info: Info, after: BigInt = BigInt(0), first: First = 50) -> list[Event]:  # noqa: B008
        caller, services = info.context.caller, info.context.services
        room = (await sessions.show(services, caller, str(self.id))).session
        read = await read_page(services, caller, room, after=after, limit=within(first))
        return [Event.of(each) for each in read.entries]

    @strawberry.field(description="The facts of each question; for the owner's side.")
    async def report(self, info: Info) -> JSON:
        made = await make_report(info.context.server.interviews, info.context.caller, str(self.id))
        return cast("JSON", orjson.loads(to_json(made)))


@strawberry.type(description="Interviews; `next` is `after` of the next page, null on the last.")
class InterviewPage:
    items: list[Interview]
    next: str | None


async def view(info: Info, shown: ShownInterview) -> Interview:
    return Interview.of(await view_interview(info.context.server.interviews, shown))


async def find(info: Info, id: str) -> Interview:
    """One interview, for those who have a role in it."""
    return await view(info, await show_interview(info.context.server.interviews, info.context.caller, id))
