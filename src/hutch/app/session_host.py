"""The session host: how sessions are prepared, opened and run."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.app import model_selection
from hutch.app.allowed_repositories import repositories_of
from hutch.app.change_context import delivery_context
from hutch.app.forges import forges_of
from hutch.app.member_network_cap import network_cap
from hutch.app.personas import load_for_run
from hutch.app.workspace_jails import open_sandbox
from hutch.app.workspaces import settings_for, workspaces_of
from hutch.domain.redaction import Redactor
from hutch.domain.session import Session
from hutch.flows.member_network_cap import session_network
from hutch.flows.personas import find_persona
from hutch.flows.run_execution.performer import Performer
from hutch.flows.run_execution.setup_builder import RunDefaults
from hutch.flows.run_execution.workspace_preparation import Preparer
from hutch.flows.services import Services
from hutch.forge.git_progress import OnProgress
from hutch.forge.repo_url import RepoUrl
from hutch.llm.prices import parse_prices
from hutch.sessions.host import Bounds, LocalHost
from hutch.sessions.host_dependencies import HostCallbacks, HostDependencies, Prepared
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.update_channel import Channels
from hutch.sessions.warm_pool import WarmPool
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog
from hutch.store.run_queue import RunCapacity
from hutch.workspace.preparation.workspace_record import Record
from hutch.workspace.workspaces import session_workspace_id

logger = structlog.get_logger()


@asynccontextmanager
async def local_host(
    loaded: LoadedSettings, log: SqlLog, redactor: Redactor, *, reserved_for: str = "", jobs: int = 0
) -> AsyncIterator[LocalHost]:
    """Run a session host in this process within the block.

    With `reserved_for` it runs only the sessions of a command, up to `jobs` at a time.
    """
    settings = loaded.settings.sessions
    capacity = RunCapacity(jobs, jobs) if jobs else RunCapacity(settings.runs, settings.runs_per_user)
    channels = Channels(log)
    pool = WarmPool()

    @asynccontextmanager
    async def sandbox_of(session: Session, workspace_id: str, recorder: Recorder) -> AsyncIterator[Sandbox]:
        network = await session_network(network_cap(loaded.settings), log, session)
        options = session.delivery
        async with open_sandbox(
            loaded,
            workspace_id,
            network=network,
            start_in=options.start_in,
            author=options.author,
            recorder=recorder,
        ) as sandbox:
            yield sandbox

    async def prepare(session: Session, recorder: Recorder) -> Prepared:
        prepared = await preparer.prepare(session_workspace_id(session.id), session, dependencies)
        pool.warm(prepared.workspace_id, sandbox_of(session, prepared.workspace_id, recorder))
        return prepared

    callbacks = HostCallbacks(
        prepare=prepare,
        open_sandbox=lambda session, recorder: pool.take(
            session.workspace_id, lambda: sandbox_of(session, session.workspace_id, recorder)
        ),
        perform=lambda live, run: performer.perform(live, run),
    )
    dependencies = HostDependencies(log, log, redactor, channels, callbacks, reserved_for)
    performer = _performer(loaded, dependencies)
    host = LocalHost(
        dependencies,
        workspaces_of(loaded).remove,
        Bounds(
            runs=capacity,
            open=settings.open,
            idle_s=settings.idle_s,
            lease_ms=settings.lease_s * 1000,
        ),
    )
    preparer = _preparer(loaded, host)
    await host.start()
    try:
        yield host
    finally:
        await host.close_all()
        await pool.close()


def services_of(
    loaded: LoadedSettings, log: SqlLog, host: LocalHost, redactor: Redactor, **more: Any
) -> Services:
    """The services of the flows, for a server or for a command."""
    more["personas"], more["default_persona"] = loaded.paths.personas, loaded.settings.persona
    return Services(
        *(log, log, host, redactor),
        find_repository=repositories_of(loaded).find,
        open_repository=workspaces_of(loaded).open_repository,
        check_model=partial(model_selection.check_model, loaded),
        networks=tuple(loaded.settings.jail.private_networks),
        **more,
    )


def _preparer(loaded: LoadedSettings, host: LocalHost) -> Preparer:
    workspaces = workspaces_of(loaded)

    async def clone(id: str, remote: RepoUrl, session: Session, on_progress: OnProgress) -> Record:
        return await workspaces.prepare(
            remote,
            id=id,
            revision=session.revision or None,
            uncommitted=session.delivery.uncommitted,
            plain=session.delivery.plain_directory,
            on_progress=on_progress,
        )

    return Preparer(
        home=workspaces.home,
        forges=lambda: forges_of(loaded),
        clone=clone,
        make_empty=lambda id: workspaces.prepare_empty(id=id),
        open_source=host.sandbox,
        refused_settings=lambda record: settings_for(loaded, record).refused,
    )


def _run_defaults(loaded: LoadedSettings, record: Record) -> RunDefaults:
    own = settings_for(loaded, record)
    return RunDefaults(
        load_persona=partial(load_for_run, own),
        find_persona=lambda name, tools: find_persona(name, own.paths.personas, tools),
        prices=parse_prices(own.settings.models.prices),
        ignore=own.settings.ignore,
        test_command=own.settings.tests.command,
        test_timeout_s=own.settings.tests.timeout_s,
        test_memory_bytes=own.settings.tests.memory_bytes,
    )


def _performer(loaded: LoadedSettings, dependencies: HostDependencies) -> Performer:
    settings = loaded.settings
    return Performer(
        defaults=partial(_run_defaults, loaded),
        default_model=settings.model,
        choose_model=lambda name, record: model_selection.choose_model(
            loaded, name, record=record, hides=dependencies.redactor
        ),
        network=partial(session_network, network_cap(settings), dependencies.rows),
        forges=lambda: forges_of(loaded),
        delivery=lambda: delivery_context(loaded, dependencies.rows, dependencies.log),
    )
