"""The services of agents at work on tasks, besides those of every flow."""

import asyncio
from dataclasses import field

from hutch.domain.errors import Denied, NotFound
from hutch.domain.user import Caller, scopes_of
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.flow_services import Services
from hutch.flows.task_work.automatic_assignment import Candidate, parse_skills
from hutch.store.task_assignments import TaskAssignments
from hutch.store.tasks import Tasks
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

FORGE_CREDENTIAL = "github"  # of callers whose request came from a forge


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskWorkServices:
    """The services of flows and of changes, and the limits of the queue."""

    services: Services
    changes: ChangeContext
    max_busy: int = 2  # agents that work on one repository at the same time
    skills: tuple[str, ...] = ()  # the candidates of automatic assignment, as in `tasks.skills`
    assigns: bool = False  # whether tasks without an owner are assigned automatically
    statuses_read: dict[str, float] = field(default_factory=dict)  # when, of changes at forges
    wake: asyncio.Event = field(default_factory=asyncio.Event)  # set when an assignment was made or cancelled

    @property
    def candidates(self) -> list[Candidate]:
        return parse_skills(self.skills)

    @property
    def assignments(self) -> TaskAssignments:
        return TaskAssignments(self.services.rows)

    @property
    def tasks(self) -> Tasks:
        return Tasks(self.services.rows)

    async def caller(self, user_id: str, *, from_forge: bool) -> Caller:
        """The user who assigned a task, with the rights that they have now."""
        try:
            user = await Users(self.services.rows).get(user_id)
        except NotFound:
            raise Denied("The user who assigned the task no longer exists.") from None
        if user.disabled:
            raise Denied(f"The user who assigned the task, {user.name}, is disabled.")
        return Caller(user, scopes_of(user.role), "local", FORGE_CREDENTIAL if from_forge else "local")
