"""The background work of tasks in a server: the queue of assignments, and the files on branches."""

import asyncio
from collections.abc import Sequence

from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.flow_services import Services
from hutch.flows.task_work.assignment_queue import AssignmentQueue
from hutch.flows.task_work.task_work_services import TaskWorkServices
from hutch.flows.task_work.tasks_file_on_branch_sync import keep_files_synced
from hutch.flows.tasks.task_requests import TaskServices


def open_task_work(
    services: Services,
    changes: ChangeContext,
    *,
    agents_per_repository: int,
    auto_assign: bool,
    skills: Sequence[str],
) -> TaskWorkServices:
    """The services of tasks; the options are those of the settings `tasks`."""
    return TaskWorkServices(
        services=services,
        changes=changes,
        max_busy=agents_per_repository,
        assigns=auto_assign,
        skills=tuple(skills),
    )


async def run_task_work(work: TaskWorkServices) -> None:
    """Run until cancelled."""
    services = TaskServices(work.services.rows, work.services.redactor)
    await asyncio.gather(AssignmentQueue(work).run(), keep_files_synced(work, services))
