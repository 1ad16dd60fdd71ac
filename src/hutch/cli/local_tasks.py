"""The tasks of this installation, for commands: the database, the caller, and the current repository."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

import typer

from hutch import settings
from hutch.app.event_log import event_log
from hutch.cli.current_repository import find_current_repository
from hutch.domain.redaction import Redactor
from hutch.domain.user import Caller, scopes_of
from hutch.flows.tasks.task_requests import TaskServices
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Repository = Annotated[
    str, typer.Option("--repo", metavar="ADDRESS", help="Another repository than the current one.")
]
TaskKey = Annotated[str, typer.Argument(metavar="KEY", help="The key of a task, such as T-12, or its id.")]


@asynccontextmanager
async def local_tasks() -> AsyncIterator[tuple[TaskServices, Caller]]:
    """The tasks of this installation, and its owner as the caller. A server may run, too."""
    async with event_log(settings.load().paths) as log:
        owner = await Accounts(log).ensure_owner(system_user())
        yield TaskServices(log, Redactor(())), Caller(owner, scopes_of(owner.role), "local", "local")


def repository_of(named: str) -> str:
    """The repository that an option names, or the current one: its remote, or else its directory."""
    if named:
        return named
    found = find_current_repository(Path.cwd())
    if found is None:
        return ""
    return min(found.remotes, default="") or str(found.root)


def repository_root() -> Path:
    """The directory of the current repository, or the working directory."""
    found = find_current_repository(Path.cwd())
    return found.root if found else Path.cwd()
