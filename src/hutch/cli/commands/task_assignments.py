"""`hutch tasks assign`, `unassign` and `work`: agents at work on tasks."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import typer

from hutch.cli.local_only_notice import other_server
from hutch.cli.repository_of_task_commands import Json, Local, Repository, TaskKey, repository_of
from hutch.domain.errors import BadRequest
from hutch.system.terminal_safe_text import printable

Row = Mapping[str, Any]


class AssignmentRequests(Protocol):
    """Agents' work on tasks of this machine, or of a server. Rows have the fields of the API."""

    def assign(self, key: str, repository: str, how: Mapping[str, Any]) -> Row: ...
    def assign_automatically(
        self, repository: str, *, dry_run: bool
    ) -> tuple[Sequence[Row], Sequence[Row]]: ...
    def cancel(self, key: str, repository: str) -> Row: ...
    def of_task(self, key: str, repository: str) -> Sequence[Row]: ...
    def has_server(self) -> bool: ...


def register_assignment_commands(app: typer.Typer) -> None:
    app.command()(assign)
    app.command()(unassign)
    app.command()(work)


def _requests(repository: str, local: bool) -> tuple[AssignmentRequests, str]:
    """The assignments that a command works with, and the repository that it means."""
    address = None if local else other_server()
    if address is not None:
        from hutch.cli.server_tasks.server_task_assignments import ServerAssignments

        return ServerAssignments(address), repository_of(repository, on_server=True)
    from hutch.cli.local_task_assignments import LocalAssignments

    return LocalAssignments(), repository_of(repository)


def assign(
    key: Annotated[str, typer.Argument(metavar="[KEY]", help="The key of a task, such as T-12.")] = "",
    persona: Annotated[
        str, typer.Option(metavar="NAME", help="By default the owner of the task, or engineer.")
    ] = "",
    reviewer: Annotated[
        str, typer.Option(metavar="NAME", help="A persona that must review the change.")
    ] = "",
    model: Annotated[str, typer.Option(metavar="PROVIDER:NAME", help="The model of the agent.")] = "",
    merge: Annotated[
        bool,
        typer.Option(
            "--merge", help="Merge without a person, if the evidence is complete and no review objects."
        ),
    ] = False,
    auto: Annotated[
        bool, typer.Option("--auto", help="Give all tasks without an owner to candidates of tasks.skills.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="With --auto: only print the choices.")] = False,
    repository: Repository = "",
    local: Local = False,
    as_json: Json = False,
) -> None:
    """Assign a task to an agent. With --auto, assign all tasks without an owner, to people too."""
    if auto == bool(key):
        raise BadRequest("Name a task, or use --auto.")
    if dry_run and not auto:
        raise BadRequest("--dry-run is for --auto.")
    requests, where = _requests(repository, local)
    if auto:
        _print_choices(*requests.assign_automatically(where, dry_run=dry_run), as_json=as_json)
    else:
        how = {"persona": persona, "reviewer": reviewer, "model": model, "merge": merge}
        _print([requests.assign(key, where, how)], as_json)
    if not dry_run and not requests.has_server():
        typer.echo("It begins when a server runs: hutch up", err=True)


def unassign(key: TaskKey, repository: Repository = "", local: Local = False, as_json: Json = False) -> None:
    """Take a task back from its agent. A running server ends its session."""
    requests, where = _requests(repository, local)
    _print([requests.cancel(key, where)], as_json)


def work(key: TaskKey, repository: Repository = "", local: Local = False, as_json: Json = False) -> None:
    """Show the work of agents on a task. It shows the state, the reason for waiting, and the evidence."""
    requests, where = _requests(repository, local)
    found = requests.of_task(key, where)
    _print(found, as_json)
    if not found and not as_json:
        typer.echo(f"No agent has worked on it. Assign one: hutch tasks assign {key}", err=True)


def _print_choices(choices: Sequence[Row], failed: Sequence[Row], *, as_json: bool) -> None:
    for choice in choices:
        row = {name: choice[name] for name in ("key", "owner", "why")}
        typer.echo(
            json.dumps(row) if as_json else printable(f"{choice['key']} {choice['title']}: {choice['why']}")
        )
    for choice in failed:
        typer.echo(printable(f"{choice['key']} was not assigned: {choice['why']}"), err=True)
    if not choices:
        typer.echo("There are no open tasks without an owner.", err=True)


def _print(found: Sequence[Row], as_json: bool) -> None:
    for each in found:
        if as_json:
            typer.echo(json.dumps(each))
            continue
        review = f", reviewed by {each['reviewer']}" if each["reviewer"] else ""
        why = f": {each['reason']}" if each["reason"] else ""
        typer.echo(printable(f"{each['persona']}{review} {each['state']}{why}"))
        for name in ("session", "change"):
            if value := each[f"{name}_id"]:
                typer.echo(f"  {name} {value}")
        for shown in each["evidence"]:
            typer.echo(printable(f"  {shown['criterion']}: {shown['kind']} {shown['target']}"))
