"""Turns a repository and a prompt into a pull request: the smallest interface to Hutch.

It opens a session that delivers, with one run, and adds a way to find that run again.
"""

from dataclasses import replace

from hutch.domain.errors import Conflict, NotARepository, NotFound
from hutch.domain.inputs import Cancel
from hutch.domain.one_line_text import check_line, echo
from hutch.domain.session import NewSession, QueuedRun, Session
from hutch.domain.user import Caller
from hutch.flows import sessions
from hutch.flows.flow_services import Services
from hutch.store.run_queue import Runs
from hutch.store.session_creation import OpenedSession
from hutch.store.table_access_interface import ExtraWrite


async def submit(
    services: Services, who: Caller, new: NewSession, *, also: ExtraWrite[OpenedSession] | None = None
) -> tuple[Session, QueuedRun]:
    """Queue a change for the next free worker. It is delivered, and its session has no other use."""
    check_line("A branch", new.revision)  # other interfaces call it a revision
    wanted = replace(new, deliver=True, delivery=replace(new.delivery, once=True))
    try:
        opened = await sessions.create_with_run(services, who, wanted, also=also)
    except NotARepository as error:
        raise error.with_option("plainDirectory: true") from None
    return opened.session, opened.run


async def find(services: Services, who: Caller, run_id: str) -> tuple[Session, QueuedRun]:
    """A run that the caller may see, and its session."""
    run = await sessions.run(services, who, run_id)
    return await sessions.allowed(services, who, run.session_id), run


async def cancel(services: Services, who: Caller, run_id: str) -> None:
    """Stop a running or waiting run."""
    session, run = await find(services, who, run_id)
    if run.state == "ended":
        return
    current = (await Runs(services.rows).unfinished(session.id))[:1]
    if not current or current[0].id != run_id:
        raise Conflict(f"The run {run_id} waits behind another of its session. Cancel that first.")
    try:
        await sessions.give(services, who, session.id, Cancel())
    except NotFound:
        raise NotFound(f"There is no run {echo(run_id, 80)}.") from None
