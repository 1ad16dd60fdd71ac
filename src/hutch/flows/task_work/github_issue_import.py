"""Makes tasks of the open issues of a repository on GitHub, and ends those whose issue was closed.

An issue is one task, whether it is imported or asks for the work of an agent first.
"""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import replace

from hutch.domain.commit_text import one_line
from hutch.domain.ids import new_task_id
from hutch.domain.session import NewSession
from hutch.domain.task import (
    ENDED_STATES,
    LABEL_PATTERN,
    MAX_DESCRIPTION_CHARS,
    MAX_NAME_CHARS,
    MAX_TITLE_CHARS,
    Task,
    TaskFilter,
    TaskLink,
    TaskState,
    task_fields,
)
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.flow_services import Services
from hutch.flows.task_work.forge_request_tasks import criteria_in
from hutch.flows.tasks.task_requests import (
    TaskServices,
    check_writer,
    redacted_fields,
    task_address,
    task_repository,
)
from hutch.flows.tasks_file.task_keys import KeySequence
from hutch.forge.github_issues import Issue, list_issues
from hutch.store.task_assignments import TaskAssignments
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

MAX_ISSUES = 1000
_LABEL = re.compile(LABEL_PATTERN)
_NOT_IN_LABEL = re.compile(r"[^\w./:+-]+")


@dataclass(frozen=True, slots=True)
class ImportedIssues:
    """The keys of tasks that an import has added, and of those that it has ended."""

    added: tuple[str, ...]
    ended: tuple[str, ...]


async def import_issues(
    services: Services, tasks: TaskServices, who: Caller, repository: str
) -> ImportedIssues:
    """Import the issues of a repository. Refused as a session with that repository would be."""
    check_writer(who)
    address = task_address(repository)
    await sessions.check_new(services, who, NewSession(repository=address))
    api = await asyncio.to_thread(services.forges().github, address, who.user.id)
    return await store_issues(tasks, who, address, await list_issues(api, maximum=MAX_ISSUES))


async def store_issues(
    tasks: TaskServices, who: Caller, address: str, issues: Iterable[Issue]
) -> ImportedIssues:
    """Store issues as tasks, the oldest first. Changes that people have made to a task stay."""
    check_writer(who)
    name = task_repository(address)
    added, ended = [], []
    for issue in reversed(list(issues)):
        task = await _find(tasks, name, issue)
        if task is None and issue.state == "open":
            made = await tasks.tasks.add(
                _task(tasks, who, address, issue),
                lambda used: KeySequence(used).next(),
                links=(TaskLink("issue", issue.url),),
                by=who.user.id,
            )
            added.append(made.key)
        elif task is not None and issue.state != "open" and await _may_end(tasks, task):
            state: TaskState = "done" if issue.state == "done" else "cancelled"
            closed = replace(task, fields=replace(task.fields, state=state))
            await tasks.tasks.change(task, closed, by=who.user.id, note="its issue was closed")
            ended.append(task.key)
    return ImportedIssues(tuple(added), tuple(ended))


async def _find(tasks: TaskServices, repository: str, issue: Issue) -> Task | None:
    """The task of an issue; one that was archived is not made again."""
    for archived in (False, True):
        which = TaskFilter(repository=repository, link=issue.url, archived=archived)
        if found := await tasks.tasks.matching(which, limit=1):
            return found[0]
    return None


async def _may_end(tasks: TaskServices, task: Task) -> bool:
    if task.archived or task.fields.state in ENDED_STATES:
        return False
    return not any(each.is_open for each in await TaskAssignments(tasks.rows).of_task(task.id))


def _task(tasks: TaskServices, who: Caller, address: str, issue: Issue) -> Task:
    fields = task_fields(
        title=one_line(issue.title)[:MAX_TITLE_CHARS].strip() or issue.url,
        labels=_labels(issue.labels),
        criteria=criteria_in(issue.body),
    )
    now = wall_ms()
    return Task(
        id=new_task_id(),
        repository=task_repository(address),
        address=address,
        key="",
        fields=redacted_fields(tasks, fields),
        description=tasks.redactor.redact(issue.body[:MAX_DESCRIPTION_CHARS]),
        created_by=who.user.id,
        created_ms=now,
        updated_ms=now,
    )


def _labels(names: Iterable[str]) -> list[str]:
    """Labels without characters that a TASKS.md cannot show."""
    written = (_NOT_IN_LABEL.sub("-", name.strip())[:MAX_NAME_CHARS].strip("-") for name in names)
    return [each for each in written if _LABEL.fullmatch(each)]
