"""`hutch tasks`: the tasks of a repository, on the server in use or in the database of this machine."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Protocol

import typer

from hutch.cli.commands.offline_task_conflicts_and_prompt import register_outbox_commands
from hutch.cli.commands.task_assignments import register_assignment_commands
from hutch.cli.commands.tasks_file_sync_and_import import register_file_commands
from hutch.cli.local_only_notice import other_server
from hutch.cli.render.task_text import task_line, task_page
from hutch.cli.repository_of_task_commands import Json, Local, Repository, TaskKey, repository_of
from hutch.cli.saved_task_filter_conversion import check_filter_name, named_filter
from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import echo
from hutch.domain.task import TASK_PRIORITIES, TASK_STATES, Task, TaskEvent, TaskFilter, TaskPriority
from hutch.system.terminal_safe_text import printable

app = typer.Typer(
    help="List, change and sync the tasks of a repository.", no_args_is_help=True, add_completion=False
)
register_file_commands(app)
register_outbox_commands(app)
register_assignment_commands(app)

STATES = "|".join(TASK_STATES)
Texts = list[str] | None
Owner = Annotated[str | None, typer.Option(metavar="NAME", help="A user's name, or persona:NAME.")]
Priority = Annotated[str | None, typer.Option(metavar="|".join(filter(None, TASK_PRIORITIES)))]
Estimate = Annotated[str | None, typer.Option(metavar="TEXT", help="Such as 3h.")]
Milestone = Annotated[str | None, typer.Option(metavar="NAME")]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="Markdown.")]
Label = Annotated[Texts, typer.Option(metavar="NAME", help="May be repeated; '' removes all.")]
After = Annotated[Texts, typer.Option(metavar="KEY", help="A task that must be done before; '' removes all.")]


class TaskRequests(Protocol):
    """Tasks of this machine, or of a server."""

    def search(self, which: TaskFilter, limit: int) -> list[Task]: ...
    def show(self, key: str, repository: str) -> tuple[Task, Sequence[TaskEvent]]: ...
    def create(self, values: Mapping[str, Any], repository: str, description: str) -> Task: ...
    def change(self, key: str, repository: str, changes: Mapping[str, Any]) -> Task: ...
    def comment(self, key: str, repository: str, text: str, *, progress: bool) -> None: ...
    def filters(self) -> Mapping[str, TaskFilter]: ...
    def save_filter(self, name: str, which: TaskFilter) -> None: ...
    def delete_filter(self, name: str) -> None: ...


def _tasks(repository: str, local: bool) -> tuple[TaskRequests, str]:
    """The tasks that a command works with, and the repository that it means."""
    address = None if local else other_server()
    if address is not None:
        from hutch.cli.server_tasks.server_task_requests import ServerTasks

        return ServerTasks(address), repository_of(repository, on_server=True)
    from hutch.cli.local_task_requests import LocalTasks

    return LocalTasks(), repository_of(repository)


@app.command("list")
def list_(
    text: Annotated[
        str, typer.Argument(metavar="[TEXT]", help="Only tasks with this text in key, title or description.")
    ] = "",
    state: Annotated[
        Texts, typer.Option(metavar=STATES, help="Only tasks in this state; may be repeated.")
    ] = None,
    owner: Annotated[
        str, typer.Option(metavar="NAME", help="Only tasks of this owner; '-' for those without one.")
    ] = "",
    label: Annotated[str, typer.Option(metavar="NAME", help="Only tasks with this label.")] = "",
    milestone: Annotated[str, typer.Option(metavar="NAME", help="Only tasks of this milestone.")] = "",
    priority: Priority = None,
    saved: Annotated[
        str, typer.Option("--filter", metavar="NAME", help="Use this saved filter instead of options.")
    ] = "",
    save: Annotated[str, typer.Option("--save", metavar="NAME", help="Save these options as a filter.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also tasks that are done or cancelled.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived tasks.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The maximum number of tasks.")] = 1000,
    repository: Repository = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """List the open tasks of a repository, the newest first."""
    tasks, where = _tasks(repository, local)
    open_states = TASK_STATES if everything or archived else TASK_STATES[:4]
    which = TaskFilter(
        repository=where,
        states=tuple(each for each in TASK_STATES if each in (state or open_states)),
        owner=owner,
        label=label,
        milestone=milestone,
        priority=task_priority(priority or ""),
        text=text,
        archived=archived,
    )
    if saved:
        which = named_filter(tasks.filters(), saved)
    if save:
        check_filter_name(save)
        tasks.save_filter(save, which)

    found = tasks.search(which, limit)
    names = not which.repository and len({task.repository for task in found}) > 1
    if found:
        lines = (
            json.dumps(asdict(task)) if as_json else task_line(task, with_repository=names) for task in found
        )
        typer.echo("\n".join(lines))
    elif not as_json:
        typer.echo("There are no such tasks. Add one: hutch tasks add TITLE", err=True)


@app.command()
def filters(
    delete: Annotated[str, typer.Option("--delete", metavar="NAME", help="Delete this one.")] = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """List your saved filters. Use one: hutch tasks list --filter NAME"""
    tasks, _ = _tasks("", local)
    if delete:
        named_filter(tasks.filters(), delete)
        tasks.delete_filter(delete)
        return
    found = tasks.filters()
    for name, which in found.items():
        values = {field: value for field, value in asdict(which).items() if value}
        if as_json:
            typer.echo(json.dumps({"name": name, "query": values}))
        else:
            typer.echo(
                printable(
                    f"{name}: {', '.join(f'{field} {_words(value)}' for field, value in values.items())}"
                )
            )
    if not found and not as_json:
        typer.echo("You have no saved filters. Save one: hutch tasks list --label bug --save bugs", err=True)


def _words(value: object) -> str:
    return " ".join(value) if isinstance(value, (list, tuple)) else str(value)


@app.command()
def show(key: TaskKey, repository: Repository = "", local: Local = False, as_json: Json = False) -> None:
    """Show a task and its history."""

    tasks, where = _tasks(repository, local)
    task, history = tasks.show(key, where)
    if as_json:
        typer.echo(json.dumps({**asdict(task), "history": [asdict(each) for each in history]}))
    else:
        typer.echo(task_page(task, history))


@app.command()
def add(
    title: Annotated[list[str], typer.Argument(metavar="TITLE")],
    state: Annotated[str, typer.Option(metavar=STATES)] = "todo",
    owner: Owner = None,
    priority: Priority = None,
    estimate: Estimate = None,
    milestone: Milestone = None,
    label: Label = None,
    after: After = None,
    criterion: Annotated[Texts, typer.Option(metavar="TEXT", help="May be repeated.")] = None,
    description: Description = None,
    repository: Repository = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Add a task to the current repository."""
    values = _values(
        title=" ".join(title),
        state=state,
        owner=owner,
        priority=priority,
        estimate=estimate,
        milestone=milestone,
    )
    values |= _lists(label, after)
    values["criteria"] = [{"text": each, "done": False} for each in criterion or ()]
    tasks, where = _tasks(repository, local)
    _print(tasks.create(values, where, description or ""), as_json)


@app.command()
def edit(
    key: TaskKey,
    title: Annotated[str | None, typer.Option(metavar="TEXT")] = None,
    state: Annotated[str | None, typer.Option(metavar=STATES)] = None,
    owner: Owner = None,
    priority: Priority = None,
    estimate: Estimate = None,
    milestone: Milestone = None,
    label: Label = None,
    after: After = None,
    description: Description = None,
    criterion: Annotated[
        Texts, typer.Option(metavar="TEXT", help="Add a criterion; may be repeated.")
    ] = None,
    met: Annotated[list[int] | None, typer.Option(metavar="NUMBER", help="This criterion is met.")] = None,
    not_met: Annotated[list[int] | None, typer.Option(metavar="NUMBER", help="It is not met.")] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="How git reaches its repository, if that is unknown."),
    ] = None,
    archive: Annotated[
        bool | None, typer.Option("--archive/--restore", help="Remove it from lists, or bring it back.")
    ] = None,
    repository: Repository = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Change fields of a task; an empty text removes a value."""
    changes = _values(
        title=title,
        state=state,
        owner=owner,
        priority=priority,
        estimate=estimate,
        milestone=milestone,
        description=description,
        archived=archive,
        address=address,
    )
    if criterion or met or not_met:
        tasks, where = _tasks(repository, local)
        task, _ = tasks.show(key, where)
        changes["criteria"] = _criteria(task, criterion or (), met or (), not_met or ())
    _change(key, changes | _lists(label, after), repository, local, as_json)


def _criteria(
    task: Task, added: Sequence[str], met: Sequence[int], not_met: Sequence[int]
) -> list[dict[str, object]]:
    """The criteria of a task after an edit; numbers count from 1."""
    found = [{"text": each.text, "done": each.done} for each in task.fields.criteria]
    for number in (*met, *not_met):
        if not 1 <= number <= len(found):
            raise BadRequest(
                f"{task.key} has no criterion {number}. It has {len(found)}: hutch tasks show {task.key}"
            )
        found[number - 1]["done"] = number in met
    return [*found, *({"text": each, "done": False} for each in added)]


@app.command()
def done(key: TaskKey, repository: Repository = "", local: Local = False, as_json: Json = False) -> None:
    """Mark a task as done."""
    _change(key, {"state": "done"}, repository, local, as_json)


@app.command()
def comment(
    key: TaskKey,
    text: Annotated[list[str], typer.Argument(metavar="TEXT")],
    progress: Annotated[bool, typer.Option("--progress", help="A line of the progress log.")] = False,
    repository: Repository = "",
    local: Local = False,
) -> None:
    """Add a comment to a task."""
    tasks, where = _tasks(repository, local)
    tasks.comment(key, where, " ".join(text), progress=progress)


def task_priority(text: str) -> TaskPriority:
    for each in TASK_PRIORITIES:
        if each == text:
            return each
    raise BadRequest(
        f"There is no priority {echo(text)}. There are: {', '.join(filter(None, TASK_PRIORITIES))}."
    )


def _values(**options: object) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _lists(label: Texts, after: Texts) -> dict[str, Any]:
    found = {"labels": label, "depends_on": after}
    return {name: [each for each in texts if each] for name, texts in found.items() if texts is not None}


def _change(key: str, changes: dict[str, Any], repository: str, local: bool, as_json: bool) -> None:
    tasks, where = _tasks(repository, local)
    _print(tasks.change(key, where, changes), as_json)


def _print(task: Task, as_json: bool) -> None:
    typer.echo(json.dumps(asdict(task)) if as_json else task_line(task))
