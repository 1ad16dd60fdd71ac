"""Tasks of this machine's database, as commands ask for them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from hutch.cli.local_task_services import local_tasks
from hutch.cli.saved_task_filter_conversion import filter_of, query_of
from hutch.domain.task import Task, TaskEvent, TaskFilter
from hutch.domain.user import Caller
from hutch.flows.tasks.task_requests import (
    TaskServices,
    change_task,
    comment_on_task,
    create_task,
    criteria_from,
    find_task,
    list_tasks,
    task_history,
)
from hutch.store.saved_task_filters import TaskFilters

MAX_HISTORY = 100_000  # events of a task that are shown
Result = TypeVar("Result")


class LocalTasks:
    """The tasks of this installation."""

    def search(self, which: TaskFilter, limit: int) -> list[Task]:
        return _run(lambda services, who: list_tasks(services, who, which, limit=limit))

    def show(self, key: str, repository: str) -> tuple[Task, Sequence[TaskEvent]]:
        async def work(services: TaskServices, who: Caller) -> tuple[Task, Sequence[TaskEvent]]:
            task = await find_task(services, who, key, repository)
            return task, await task_history(services, who, task, limit=MAX_HISTORY)

        return _run(work)

    def create(self, values: Mapping[str, Any], repository: str, description: str) -> Task:
        fields = {**values, "criteria": criteria_from(values.get("criteria", ()))}
        return _run(
            lambda services, who: create_task(
                services, who, fields, repository=repository, description=description
            )
        )

    def change(self, key: str, repository: str, changes: Mapping[str, Any]) -> Task:
        async def work(services: TaskServices, who: Caller) -> Task:
            task = await find_task(services, who, key, repository)
            values = dict(changes)
            if "criteria" in values:
                values["criteria"] = criteria_from(values["criteria"])
            return await change_task(services, who, task.id, values)

        return _run(work)

    def comment(self, key: str, repository: str, text: str, *, progress: bool) -> None:
        async def work(services: TaskServices, who: Caller) -> None:
            task = await find_task(services, who, key, repository)
            await comment_on_task(services, who, task, text, progress=progress)

        _run(work)

    def filters(self) -> Mapping[str, TaskFilter]:
        async def work(services: TaskServices, who: Caller) -> dict[str, TaskFilter]:
            found = await TaskFilters(services.rows, who.user.id).list()
            return {name: filter_of(query) for name, query in found.items()}

        return _run(work)

    def save_filter(self, name: str, which: TaskFilter) -> None:
        _run(lambda services, who: TaskFilters(services.rows, who.user.id).set(name, query_of(which)))

    def delete_filter(self, name: str) -> None:
        _run(lambda services, who: TaskFilters(services.rows, who.user.id).delete(name))


def _run(work: Callable[[TaskServices, Caller], Awaitable[Result]]) -> Result:
    async def run() -> Result:
        async with local_tasks() as (services, who):
            return await work(services, who)

    return asyncio.run(run())
