"""Requests of users about tasks: create, read, change, comment, link.

Owners see and change all tasks. Members see and change those of remote repositories, of directories that they
may use, and their own tasks without a repository. Observers, assessors and candidates see none.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from hutch.domain.canonical_repository_name import repository_name
from hutch.domain.errors import BadRequest, Conflict, Denied
from hutch.domain.ids import new_task_id
from hutch.domain.one_line_text import check_line, echo
from hutch.domain.redaction import Redactor
from hutch.domain.task import (
    MAX_DESCRIPTION_CHARS,
    MAX_TITLE_CHARS,
    TASK_LINK_KINDS,
    AcceptanceCriterion,
    Task,
    TaskEvent,
    TaskFields,
    TaskFilter,
    TaskLink,
    TaskViewer,
    check_key,
    task_fields,
)
from hutch.domain.user import Caller
from hutch.flows.tasks_file.task_keys import KeySequence
from hutch.forge.repo_url import parse_repo_url
from hutch.store.table_access_interface import Rows
from hutch.store.task_rows import FIELDS
from hutch.store.tasks import Tasks
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

ROLES = ("owner", "member")
MAX_REPOSITORY_CHARS = 1000
_HOST_AND_PATH = re.compile(r"[\w-]+(?:\.[\w-]+)+(?:/[\w.-]+)+")
MAX_ATTEMPTS = 10  # of a change, while others change the task
UNCHANGED_REVISION = 0  # of a request that does not say which revision it changes


@dataclass(frozen=True, slots=True)
class TaskServices:
    """The rows, and the redactor of texts that are stored."""

    rows: Rows
    redactor: Redactor
    roots: tuple[str, ...] = ()  # the directories whose repositories members may use

    @property
    def tasks(self) -> Tasks:
        return Tasks(self.rows)


def check_reader(who: Caller) -> None:
    who.need("read")
    _check_role(who)


def check_writer(who: Caller) -> None:
    who.need("write")
    _check_role(who)


def _check_role(who: Caller) -> None:
    if who.user.role not in ROLES:
        raise Denied(
            f"{who.user.name} is {who.user.role}; tasks are for {' and '.join(ROLES)}. "
            f"An owner can change the role: hutch users role {who.user.name} ROLE"
        )


def viewer_of(services: TaskServices, who: Caller) -> TaskViewer | None:
    """The limits of what a caller may see; None for owners, who see everything."""
    if who.user.role == "owner":
        return None
    roots = tuple(repository_name(root) for root in services.roots)
    return TaskViewer(user_id=who.user.id, name=who.user.name, roots=roots)


def check_repository(services: TaskServices, who: Caller, repository: str) -> None:
    """Refuse a repository whose tasks the caller may not see, by its name."""
    viewer = viewer_of(services, who)
    if viewer is not None and repository and not viewer.sees_repository(repository):
        raise Denied(
            f"{who.user.name} may not use the directory {repository}. An owner can allow it: "
            "server.repository_roots"
        )


def task_repository(address: str) -> str:
    """The name of a repository, however its address is written; empty for tasks without one."""
    check_line("The repository of a task", address)
    if len(address) > MAX_REPOSITORY_CHARS:
        raise BadRequest(f"The address of a repository has at most {MAX_REPOSITORY_CHARS:,} characters.")
    return repository_name(address) if address.strip() else ""


def task_address(address: str) -> str:
    """The address of a repository as git gets it, without a password; empty if it is none.

    A host and a path, such as github.com/acme/shop, are reached by HTTPS.
    """
    text = address.strip()
    try:
        found = parse_repo_url(text)
    except BadRequest:
        return ""
    if found.path is None or text.startswith("/") or "://" in text:
        return found.address
    return f"https://{text}" if _HOST_AND_PATH.fullmatch(text) else ""


async def create_task(
    services: TaskServices,
    who: Caller,
    values: Mapping[str, Any],
    *,
    repository: str = "",
    key: str = "",
    description: str = "",
) -> Task:
    """Create a task; without a key it gets the next one of its repository."""
    check_writer(who)
    now, name = wall_ms(), task_repository(repository)
    check_repository(services, who, name)
    address = task_address(repository) if name else ""
    if name and repository.strip() == name:  # a name is in lower case, and has no protocol
        address = await services.tasks.address_of(name) or address
    task = Task(
        id=new_task_id(),
        repository=name,
        address=address,
        key=check_key(key) if key else "",
        fields=redacted_fields(services, task_fields(**values)),
        description=_description(services, description),
        created_by=who.user.id,
        created_ms=now,
        updated_ms=now,
    )
    return await services.tasks.add(task, lambda used: KeySequence(used).next())


async def find_task(services: TaskServices, who: Caller, name: str, repository: str = "") -> Task:
    """A task by its id, or by its key in a repository."""
    check_reader(who)
    return await services.tasks.find(name, task_repository(repository), viewer_of(services, who))


async def list_tasks(
    services: TaskServices, who: Caller, which: TaskFilter, *, before: str = "", limit: int = 100
) -> list[Task]:
    """The newest first."""
    check_reader(who)
    viewer = viewer_of(services, who)
    which = replace(which, repository=task_repository(which.repository), viewer=viewer)
    return await services.tasks.matching(which, before=before, limit=limit)


async def change_task(
    services: TaskServices,
    who: Caller,
    task_id: str,
    changes: Mapping[str, Any],
    *,
    revision: int = UNCHANGED_REVISION,
) -> Task:
    """Change fields, the description, or whether the task is archived; absent ones stay as they are.

    With `revision` the change is refused if the task has another one by now.
    """
    check_writer(who)
    for _ in range(MAX_ATTEMPTS):
        task = await services.tasks.find(task_id, viewer=viewer_of(services, who))
        if revision not in (UNCHANGED_REVISION, task.revision):
            raise Conflict(
                f"The task {task.key} has revision {task.revision} by now, not {revision}. Read it again."
            )
        if address := str(changes.get("address") or ""):
            if task_repository(address) != task.repository:
                raise BadRequest(f"{echo(address)} is another repository than that of the task.")
            task = await services.tasks.set_address(task, task_address(address))
        try:
            return await services.tasks.change(task, _changed(services, task, changes), by=who.user.id)
        except Conflict:  # it was changed since it was read: by a sync, for example
            if revision != UNCHANGED_REVISION:
                raise
    raise Conflict("The task was changed again and again. Repeat the request.")


def _changed(services: TaskServices, task: Task, changes: Mapping[str, Any]) -> Task:
    """The task with these changes, checked."""
    values = {name: getattr(task.fields, name) for name in FIELDS}
    values |= {name: value for name, value in changes.items() if name in values}
    changed = replace(task, fields=redacted_fields(services, task_fields(**values)))
    if "description" in changes:
        changed = replace(changed, description=_description(services, str(changes["description"])))
    if "archived" in changes:
        changed = replace(changed, archived=bool(changes["archived"]))
    return changed


async def comment_on_task(
    services: TaskServices, who: Caller, task: Task, text: str, *, progress: bool = False
) -> None:
    """Add a comment, or a line to the progress log."""
    check_writer(who)
    cleaned = _description(services, text).strip()
    if not cleaned:
        raise BadRequest("A comment cannot be empty.")
    await services.tasks.note(task, "progress" if progress else "comment", cleaned, by=who.user.id)


async def task_history(
    services: TaskServices, who: Caller, task: Task, *, after: int = 0, limit: int = 200
) -> list[TaskEvent]:
    """Everything that happened to a task, the oldest first."""
    check_reader(who)
    return await services.tasks.history(task.id, after=after, limit=limit)


async def link_task(services: TaskServices, who: Caller, task: Task, kind: str, target: str) -> Task:
    """Link a session, a change, a pull request or an issue to a task."""
    check_writer(who)
    check_line("The target of a link", target)
    known = next((each for each in TASK_LINK_KINDS if each == kind), None)
    if known is None or not target.strip() or len(target) > MAX_TITLE_CHARS:
        raise BadRequest(f"A link has a target and one of these kinds: {', '.join(TASK_LINK_KINDS)}.")
    await services.tasks.link(task, TaskLink(known, target.strip()), by=who.user.id)
    return await services.tasks.find(task.id)


def criteria_from(texts: Iterable[Mapping[str, Any]]) -> list[AcceptanceCriterion]:
    return [AcceptanceCriterion(str(each["text"]), bool(each.get("done"))) for each in texts]


def redacted_fields(services: TaskServices, found: TaskFields) -> TaskFields:
    """The fields without secrets in their texts."""
    redact = services.redactor.redact
    criteria = tuple(AcceptanceCriterion(redact(each.text), each.done) for each in found.criteria)
    return replace(
        found,
        title=redact(found.title),
        milestone=redact(found.milestone),
        estimate=redact(found.estimate),
        criteria=criteria,
    )


def _description(services: TaskServices, text: str) -> str:
    if len(text) > MAX_DESCRIPTION_CHARS:
        raise BadRequest(f"A text of a task has at most {MAX_DESCRIPTION_CHARS:,} characters.")
    return services.redactor.redact(text)
