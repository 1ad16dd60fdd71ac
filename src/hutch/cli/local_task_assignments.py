"""Agents' work on tasks of this machine's database, as commands ask for it."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from hutch import settings
from hutch.cli.local_task_services import local_tasks
from hutch.domain.task import Task, TaskFilter
from hutch.domain.task_assignment import TaskAssignment
from hutch.domain.user import Caller
from hutch.flows.personas import find_persona
from hutch.flows.task_work.assignment_requests import assigned_text, cancel_open, new_assignment
from hutch.flows.task_work.automatic_assignment import (
    Choice,
    carry_out,
    check_candidates,
    parse_skills,
    plan_assignments,
)
from hutch.flows.tasks.task_requests import TaskServices, find_task
from hutch.store.task_assignments import TaskAssignments
from hutch.system.server_announcement_and_discovery import find_server

Row = Mapping[str, Any]
Result = TypeVar("Result")


class LocalAssignments:
    """The assignments of this installation. A server that runs here works on them."""

    def assign(self, key: str, repository: str, how: Mapping[str, Any]) -> Row:
        async def work(services: TaskServices, who: Caller, task: Task) -> TaskAssignment:
            return await _assign(services, who, task, how)

        return asdict(_with_task(key, repository, work))

    def assign_automatically(self, repository: str, *, dry_run: bool) -> tuple[Sequence[Row], Sequence[Row]]:
        async def work() -> tuple[Sequence[Choice], Sequence[Choice]]:
            loaded = settings.load()
            candidates = parse_skills(loaded.settings.tasks.skills)
            async with local_tasks() as (services, who):
                await check_candidates(services.rows, loaded.paths.personas, candidates)
                choices = await plan_assignments(services, who, candidates, TaskFilter(repository=repository))
                if dry_run:
                    return choices, ()
                return choices, await carry_out(
                    services,
                    who,
                    choices,
                    lambda task, persona: _assign(services, who, task, {"persona": persona}),
                )

        choices, failed = asyncio.run(work())
        return [_row(each) for each in choices], [_row(each) for each in failed]

    def cancel(self, key: str, repository: str) -> Row:
        async def work(services: TaskServices, who: Caller, task: Task) -> TaskAssignment:
            return await cancel_open(TaskAssignments(services.rows), who, task)

        return asdict(_with_task(key, repository, work))

    def of_task(self, key: str, repository: str) -> Sequence[Row]:
        async def work(services: TaskServices, who: Caller, task: Task) -> Sequence[TaskAssignment]:
            return await TaskAssignments(services.rows).of_task(task.id)

        return [asdict(each) for each in _with_task(key, repository, work)]

    def has_server(self) -> bool:
        """True if a server runs, which begins queued work."""
        return find_server(settings.load().paths.server_files) is not None


def _row(choice: Choice) -> Row:
    fields = choice.task.fields
    return {"key": choice.task.key, "title": fields.title, "owner": choice.owner, "why": choice.why}


async def _assign(services: TaskServices, who: Caller, task: Task, how: Mapping[str, Any]) -> TaskAssignment:
    values = {"merges" if name == "merge" else name: value for name, value in how.items()}
    new = new_assignment(task, who, **values)
    folder = settings.load().paths.personas
    for name in filter(None, (new.persona, new.reviewer)):
        await asyncio.to_thread(find_persona, name, folder)
    return await TaskAssignments(services.rows).add(new, progress=assigned_text(new))


def _with_task(
    key: str, repository: str, work: Callable[[TaskServices, Caller, Task], Awaitable[Result]]
) -> Result:
    async def run() -> Result:
        async with local_tasks() as (services, who):
            return await work(services, who, await find_task(services, who, key, repository))

    return asyncio.run(run())
