"""A task as a GraphQL type, with its history and the work of agents on it."""

from typing import Any, cast

import strawberry
from strawberry.scalars import JSON

from hutch.domain.errors import BadRequest
from hutch.domain.task import Task as StoredTask
from hutch.flows.task_work.assignment_requests import list_assignments
from hutch.flows.tasks.task_requests import task_history
from hutch.gateway.graphql.object_types import BigInt, Node, node
from hutch.gateway.graphql.resolver_context import Info
from hutch.gateway.graphql.session_type import First, within
from hutch.gateway.request_and_response_bodies import MAX_SIZE
from hutch.gateway.rest.task_assignments import AssignmentOut, CriterionEvidenceOut
from hutch.gateway.rest.task_request_and_response_bodies import (
    CriterionOut,
    TaskEventOut,
    TaskFieldsOut,
    TaskLinkOut,
    TaskOut,
)
from hutch.gateway.rest.task_services import task_services_of


@node(CriterionOut)
class TaskCriterion(Node):
    pass


@node(TaskLinkOut)
class TaskLink(Node):
    pass


@node(CriterionEvidenceOut)
class CriterionEvidence(Node):
    pass


@node(AssignmentOut, "evidence")
class Assignment(Node):
    evidence: list[CriterionEvidence]


@node(TaskFieldsOut, "criteria", "The fields that a TASKS.md can express.")
class TaskFields(Node):
    criteria: list[TaskCriterion]


@node(TaskEventOut, "changes")
class TaskEvent(Node):
    changes: JSON


@node(TaskOut, "fields links")
class Task:
    stored: strawberry.Private[StoredTask]
    fields: TaskFields
    links: list[TaskLink]

    @classmethod
    def of(cls, task: StoredTask) -> "Task":
        names = [name for name in cls.__annotations__ if name not in ("stored", "fields", "links")]
        values: dict[str, Any] = {name: getattr(task, name) for name in names}
        make: Any = cls
        made = make(stored=task, fields=TaskFields.of(task.fields), links=list(task.links), **values)
        return cast("Task", made)

    @strawberry.field(description="Everything that happened to it, the oldest first.")
    async def history(
        self,
        info: Info,
        after: BigInt = BigInt(0),  # noqa: B008
        first: First = 50,
    ) -> list[TaskEvent]:
        if not 0 <= after <= MAX_SIZE:
            raise BadRequest(f"`after` must be the id of an entry, not {after}.")
        services = task_services_of(info.context.server)
        found = await task_history(
            services, info.context.caller, self.stored, after=after, limit=within(first)
        )
        return [TaskEvent.of(each) for each in found]

    @strawberry.field(description="The work of agents on it, the newest first.")
    async def assignments(self, info: Info) -> list[Assignment]:
        work = info.context.server.task_work
        found = await list_assignments(work, info.context.caller, self.stored)
        return [Assignment.of(each) for each in found]
