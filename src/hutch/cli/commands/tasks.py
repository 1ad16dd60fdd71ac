"""`hutch tasks`: the tasks of a repository."""

import asyncio
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer

from hutch.cli.commands.tasks_file import register_file_commands
from hutch.cli.local_tasks import Json, Repository, TaskKey, local_tasks, repository_of
from hutch.cli.render.task_text import task_line, task_page
from hutch.domain.task import TASK_PRIORITIES, TASK_STATES, AcceptanceCriterion, Task, TaskFilter
from hutch.flows.tasks.task_requests import (
    change_task,
    comment_on_task,
    create_task,
    find_task,
    list_tasks,
    task_history,
)

app = typer.Typer(
    help="List, change and sync the tasks of a repository.", no_args_is_help=True, add_completion=False
)
register_file_commands(app)

STATES = "|".join(TASK_STATES)
Texts = list[str] | None
Owner = Annotated[str | None, typer.Option(metavar="NAME", help="A user's name, or persona:NAME.")]
Priority = Annotated[str | None, typer.Option(metavar="|".join(filter(None, TASK_PRIORITIES)))]
Estimate = Annotated[str | None, typer.Option(metavar="TEXT", help="Such as 3h.")]
Milestone = Annotated[str | None, typer.Option(metavar="NAME")]
Description = Annotated[str | None, typer.Option(metavar="TEXT", help="Markdown.")]
Label = Annotated[Texts, typer.Option(metavar="NAME", help="May be repeated; '' removes all.")]
After = Annotated[Texts, typer.Option(metavar="KEY", help="A task that must be done before; '' removes all.")]


@app.command("list")
def list_(
    text: Annotated[str, typer.Argument(metavar="[TEXT]", help="In the key, title or description.")] = "",
    state: Annotated[Texts, typer.Option(metavar=STATES, help="May be repeated.")] = None,
    owner: Annotated[str, typer.Option(metavar="NAME")] = "",
    label: Annotated[str, typer.Option(metavar="NAME")] = "",
    milestone: Annotated[str, typer.Option(metavar="NAME")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Also tasks that are done or cancelled.")] = False,
    archived: Annotated[bool, typer.Option("--archived", help="Only archived tasks.")] = False,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="The maximum number of tasks.")] = 1000,
    repository: Repository = "",
    as_json: Json = False,
) -> None:
    """List the open tasks of a repository, the newest first."""
    open_states = TASK_STATES if everything or archived else TASK_STATES[:4]
    which = TaskFilter(
        repository=repository_of(repository),
        states=tuple(each for each in TASK_STATES if each in (state or open_states)),
        owner=owner,
        label=label,
        milestone=milestone,
        text=text,
        archived=archived,
    )

    async def work() -> list[Task]:
        async with local_tasks() as (services, who):
            return await list_tasks(services, who, which, limit=limit)

    found = asyncio.run(work())
    for task in found:
        typer.echo(json.dumps(asdict(task)) if as_json else task_line(task))
    if not found and not as_json:
        typer.echo("There are no such tasks. Add one: hutch tasks add TITLE", err=True)


@app.command()
def show(key: TaskKey, repository: Repository = "", as_json: Json = False) -> None:
    """Show a task and its history."""

    async def work() -> tuple[Task, list[Any]]:
        async with local_tasks() as (services, who):
            task = await find_task(services, who, key, repository_of(repository))
            return task, await task_history(services, who, task)

    task, history = asyncio.run(work())
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
    values["criteria"] = [AcceptanceCriterion(each) for each in criterion or ()]

    async def work() -> Task:
        async with local_tasks() as (services, who):
            return await create_task(
                services, who, values, repository=repository_of(repository), description=description or ""
            )

    _print(asyncio.run(work()), as_json)


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
    archive: Annotated[
        bool | None, typer.Option("--archive/--restore", help="Remove it from lists, or bring it back.")
    ] = None,
    repository: Repository = "",
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
    )
    _change(key, changes | _lists(label, after), repository, as_json)


@app.command()
def done(key: TaskKey, repository: Repository = "", as_json: Json = False) -> None:
    """Mark a task as done."""
    _change(key, {"state": "done"}, repository, as_json)


@app.command()
def comment(
    key: TaskKey,
    text: Annotated[list[str], typer.Argument(metavar="TEXT")],
    progress: Annotated[bool, typer.Option("--progress", help="A line of the progress log.")] = False,
    repository: Repository = "",
) -> None:
    """Add a comment to a task."""

    async def work() -> None:
        async with local_tasks() as (services, who):
            task = await find_task(services, who, key, repository_of(repository))
            await comment_on_task(services, who, task, " ".join(text), progress=progress)

    asyncio.run(work())


def _values(**options: object) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _lists(label: Texts, after: Texts) -> dict[str, Any]:
    found = {"labels": label, "depends_on": after}
    return {name: [each for each in texts if each] for name, texts in found.items() if texts is not None}


def _change(key: str, changes: dict[str, Any], repository: str, as_json: bool) -> None:
    async def work() -> Task:
        async with local_tasks() as (services, who):
            task = await find_task(services, who, key, repository_of(repository))
            return await change_task(services, who, task.id, changes)

    _print(asyncio.run(work()), as_json)


def _print(task: Task, as_json: bool) -> None:
    typer.echo(json.dumps(asdict(task)) if as_json else task_line(task))
