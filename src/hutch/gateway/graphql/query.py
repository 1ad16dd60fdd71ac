"""The root of all queries."""

import asyncio
from typing import get_args

import strawberry

from hutch.domain.errors import BadRequest
from hutch.domain.interview import Phase
from hutch.domain.one_line_text import echo
from hutch.domain.proposed_change import ChangeState
from hutch.domain.session import SessionState
from hutch.domain.task import TASK_STATES, TaskFilter
from hutch.flows import changes_visible_to_caller as changes_flow
from hutch.flows import sessions as flow
from hutch.flows.interviews.interview_planning_and_invitations import list_interviews
from hutch.flows.personas import list_personas
from hutch.flows.tasks.task_requests import find_task, list_tasks
from hutch.gateway.graphql.interview_type import Interview, InterviewPage, find, view
from hutch.gateway.graphql.object_types import Change, Me, Models, Persona, Provider, Run
from hutch.gateway.graphql.resolver_context import Info
from hutch.gateway.graphql.session_type import First, Session, SessionPage, within
from hutch.gateway.graphql.task_type import Task
from hutch.gateway.request_and_response_bodies import cursor
from hutch.gateway.rest import personas
from hutch.gateway.rest.task_services import task_services_of

MAX_TEXT = 500


@strawberry.type
class Query:
    @strawberry.field(description="The caller.")
    async def me(self, info: Info) -> Me:
        user, scopes = info.context.caller.user, sorted(info.context.caller.scopes)
        return Me.of({"id": user.id, "name": user.name, "role": user.role, "scopes": scopes})

    @strawberry.field(description="The sessions that you may see, the newest first.")
    async def sessions(
        self,
        info: Info,
        states: list[str] | None = None,
        text: str = "",
        after: str = "",
        first: First = 50,
    ) -> SessionPage:
        for each in states or ():
            if each not in get_args(SessionState):
                raise BadRequest(
                    f"{echo(each, 40)} is not a state. There are: {', '.join(get_args(SessionState))}."
                )
        if len(text) > MAX_TEXT:
            raise BadRequest(f"`text` has at most {MAX_TEXT} characters.")
        found = await flow.page(
            info.context.services,
            info.context.caller,
            states=states or (),  # type: ignore[arg-type]  # checked above
            text=text,
            before=cursor(after),
            limit=within(first) + 1,
        )
        more = found[first - 1].session.id if len(found) > first else None
        return SessionPage(items=[Session.of(each) for each in found[:first]], next=more)

    @strawberry.field(description="One session.")
    async def session(self, info: Info, id: strawberry.ID) -> Session:
        return Session.of(await flow.show(info.context.services, info.context.caller, id))

    @strawberry.field(description="One run.")
    async def run(self, info: Info, id: strawberry.ID) -> Run:
        return Run.of(await flow.run(info.context.services, info.context.caller, id))

    @strawberry.field(description="The runs of a session, the newest first.")
    async def runs(
        self, info: Info, session_id: strawberry.ID, after: str = "", first: First = 50
    ) -> list[Run]:
        found = await flow.runs(
            info.context.services, info.context.caller, session_id, before=cursor(after), limit=within(first)
        )
        return [Run.of(each) for each in found]

    @strawberry.field(description="The changes of sessions that you may see, the newest first.")
    async def changes(
        self,
        info: Info,
        session_id: str = "",
        state: str | None = None,
        after: str = "",
        first: First = 50,
    ) -> list[Change]:
        info.context.refuse_candidates()
        if state is not None and state not in get_args(ChangeState):
            raise BadRequest(
                f"{echo(state, 40)} is not a state. There are: {', '.join(get_args(ChangeState))}."
            )
        found = await changes_flow.page(
            info.context.services,
            info.context.caller,
            session_id=session_id,
            state=state,  # type: ignore[arg-type]  # checked above
            before=cursor(after),
            limit=within(first),
        )
        return [Change.of(each) for each in found]

    @strawberry.field(description="One change.")
    async def change(self, info: Info, id: strawberry.ID) -> Change:
        info.context.refuse_candidates()
        return Change.of(await changes_flow.find(info.context.services, info.context.caller, id))

    @strawberry.field(description="Tasks, the newest first; all repositories if none is named.")
    async def tasks(
        self,
        info: Info,
        repository: str = "",
        states: list[str] | None = None,
        owner: str = "",
        label: str = "",
        text: str = "",
        after: str = "",
        first: First = 50,
    ) -> list[Task]:
        for each in states or ():
            if each not in TASK_STATES:
                raise BadRequest(f"{echo(each, 40)} is not a state. There are: {', '.join(TASK_STATES)}.")
        which = TaskFilter(
            repository=repository,
            states=tuple(each for each in TASK_STATES if each in (states or ())),
            owner=owner[:MAX_TEXT],
            label=label[:MAX_TEXT],
            text=text[:MAX_TEXT],
        )
        services = task_services_of(info.context.server)
        found = await list_tasks(
            services, info.context.caller, which, before=cursor(after), limit=within(first)
        )
        return [Task.of(each) for each in found]

    @strawberry.field(description="One task, by its id, or by its key in a repository.")
    async def task(self, info: Info, id: strawberry.ID, repository: str = "") -> Task:
        services = task_services_of(info.context.server)
        return Task.of(await find_task(services, info.context.caller, id, repository))

    @strawberry.field(description="The available personas.")
    async def personas(self, info: Info) -> list[Persona]:
        info.context.refuse_candidates()
        folder = info.context.server.loaded.paths.personas
        found = await asyncio.to_thread(list_personas, folder)
        return [Persona.of(personas.persona_json(each, folder)) for each in found]

    @strawberry.field(description="The available models, and the default one.")
    async def models(self, info: Info) -> Models:
        info.context.refuse_candidates()
        choice, providers = await info.context.server.list_models(info.context.caller.user.id)
        hidden = choice.name.startswith("scripted:") and not info.context.caller.is_owner
        default = "scripted" if hidden else choice.name
        usable = [Provider.of(each) for each in providers]
        return Models.of({"default": default, "reason": choice.reason, "providers": usable})

    @strawberry.field(description="The interviews that you have a role in, the newest first.")
    async def interviews(
        self, info: Info, phases: list[str] | None = None, after: str = "", first: First = 50
    ) -> InterviewPage:
        for each in phases or ():
            if each not in get_args(Phase):
                raise BadRequest(f"{echo(each, 40)} is not a phase. There are: {', '.join(get_args(Phase))}.")
        found = await list_interviews(
            info.context.server.interviews,
            info.context.caller,
            phases=phases or (),  # type: ignore[arg-type]  # checked above
            before=cursor(after),
            limit=within(first) + 1,
        )
        more = found[first - 1].interview.id if len(found) > first else None
        return InterviewPage(items=[await view(info, each) for each in found[:first]], next=more)

    @strawberry.field(description="One interview.")
    async def interview(self, info: Info, id: strawberry.ID) -> Interview:
        return await find(info, id)
