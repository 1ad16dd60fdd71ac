"""The tasks of this installation, for commands: the database and the caller."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch import settings
from hutch.app.event_log import event_log
from hutch.domain.redaction import Redactor
from hutch.domain.user import Caller, scopes_of
from hutch.flows.tasks.task_requests import TaskServices
from hutch.flows.user_accounts import Accounts
from hutch.flows.user_running_hutch import system_user


@asynccontextmanager
async def local_tasks() -> AsyncIterator[tuple[TaskServices, Caller]]:
    """The tasks of this installation, and its owner as the caller. A server may run, too."""
    async with event_log(settings.load()) as log:
        owner = await Accounts(log).ensure_owner(system_user())
        yield TaskServices(log, Redactor(())), Caller(owner, scopes_of(owner.role), "local", "local")
