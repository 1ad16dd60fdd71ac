"""The session host: how sessions are prepared, opened and run."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import structlog

from hutch.agent.session_recorder import Recorder
from hutch.app import models, vault_secrets_and_redactor
from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.change_and_delivery_contexts import delivery_context
from hutch.app.extensions import extension_management, extensions_of, hooks_of
from hutch.app.forges import forges_of
from hutch.app.repository_dependencies import environments_of
from hutch.app.sandbox_opener import sandbox_opener
from hutch.app.session_limits import session_limits
from hutch.app.workspaces import settings_for, workspaces_of
from hutch.domain.redaction import Redactor
from hutch.domain.session import Session
from hutch.flows.flow_services import Services
from hutch.flows.helper_agents.helper_rights import HelperLimits
from hutch.flows.in_place_workspaces import InPlaceDirectories
from hutch.flows.personas import RunPersonas, find_persona
from hutch.flows.policies.applicable_policies import Policies
from hutch.flows.policies.user_action_check import RequestGuard
from hutch.flows.run_execution.run_performer import Performer
from hutch.flows.run_execution.run_setup_builder import RunDefaults
from hutch.flows.run_execution.workspace_preparation import Preparer
from hutch.flows.session_jail_policy_and_limits import SessionLimits
from hutch.forge.git_progress import OnProgress
from hutch.forge.repo_url import RepoUrl
from hutch.llm.reply_cost import parse_prices
from hutch.sessions.host_dependencies_and_callbacks import HostCallbacks, HostDependencies, Prepared
from hutch.sessions.live_session_host import Bounds, LocalHost
from hutch.sessions.sandbox import Sandbox
from hutch.sessions.session_update_fan_out import Channels
from hutch.sessions.warm_sandbox_pool import WarmPool
from hutch.settings import LoadedSettings
from hutch.store.event_log import SqlLog
from hutch.store.message_and_run_rate_limits import SessionRates
from hutch.store.run_queue import RunCapacity
from hutch.workspace.lifecycle.pending_starter_files import StagedFiles
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspaces import session_workspace_id

logger = structlog.get_logger()


@asynccontextmanager
async def local_host(
    loaded: LoadedSettings,
    log: SqlLog,
    redactor: Redactor,
    *,
    reserved_for: str = "",
    jobs: int = 0,
    in_place: InPlaceDirectories | None = None,
) -> AsyncIterator[LocalHost]:
    """Run a session host in this process within the block.

    With `reserved_for` it runs only the sessions of a command, up to `jobs` at a time; with `in_place`, also
    sessions in users' directories.
    """
    pool, limits = WarmPool(), session_limits(loaded, log)
    policies, sandboxes = limits.policies, sandbox_opener(loaded)

    @asynccontextmanager
    async def sandbox_of(session: Session, workspace_id: str, recorder: Recorder) -> AsyncIterator[Sandbox]:
        policy, admit = await limits.policy(session), partial(policies.check_egress, session.id)
        start_in = session.delivery.start_in
        began_s = time.monotonic()
        opener = await in_place.opener(session, sandboxes) if in_place else sandboxes
        async with opener.open(workspace_id, policy, start_in, recorder, admit) as sandbox:
            sandbox.start.seconds = round(time.monotonic() - began_s, 6)
            yield sandbox

    async def prepare(session: Session, recorder: Recorder) -> Prepared:
        if in_place and session.delivery.in_place:
            return await in_place.prepare(session)
        id = session_workspace_id(session.id)
        prepared = await preparer.prepare(id, session, dependencies, recorder.append)
        pool.warm(prepared.workspace_id, sandbox_of(session, prepared.workspace_id, recorder))
        return prepared

    callbacks = HostCallbacks(
        prepare=prepare,
        open_sandbox=lambda session, recorder: pool.take(
            session.workspace_id, lambda: sandbox_of(session, session.workspace_id, recorder)
        ),
        perform=lambda live, run: performer.perform(live, run, host),
        guard=RequestGuard(policies),
        refuse_tests=policies.refuse_tests,
        adjust=limits.adjust,
    )
    dependencies = HostDependencies(
        *(log, log, redactor, Channels(log), callbacks, reserved_for),
        rates=_rates(loaded),
        opens_in_place=in_place is not None,
    )
    performer = _performer(loaded, dependencies, limits)
    host = LocalHost(dependencies, workspaces_of(loaded).remove, _bounds(loaded, jobs))
    preparer = _preparer(loaded, host)
    await host.start()
    try:
        yield host
    finally:
        await host.close_all()
        await pool.close()


def _bounds(loaded: LoadedSettings, jobs: int) -> Bounds:
    settings = loaded.settings.sessions
    places = (jobs, jobs) if jobs else (settings.runs, settings.runs_per_user)
    capacity = RunCapacity(*places, settings.waiting_runs, settings.waiting_runs_per_user)
    return Bounds(capacity, settings.open, settings.idle_s, settings.lease_s * 1000)


def _rates(loaded: LoadedSettings) -> SessionRates:
    sessions = loaded.settings.sessions
    return SessionRates(sessions.messages_per_minute, sessions.runs_per_hour)


def services_of(
    loaded: LoadedSettings, log: SqlLog, host: LocalHost, redactor: Redactor, **more: Any
) -> Services:
    """The services of the flows, for a server or for a command."""
    limits = session_limits(loaded, log)
    more["personas"], more["default_persona"] = loaded.paths.personas, loaded.settings.persona
    return Services(
        *(log, log, host, redactor),
        find_repository=repositories_of(loaded).find,
        open_repository=workspaces_of(loaded).open_repository,
        forges=lambda: forges_of(loaded),
        git=workspaces_of(loaded).git,
        open_recorded=workspaces_of(loaded).open_recorded,
        staged=StagedFiles(workspaces_of(loaded).home.staged_files),
        check_model=models.models_of(loaded).check,
        networks=tuple(loaded.settings.jail.private_networks),
        policies=limits.policies,
        environments=environments_of(loaded),
        extensions=extension_management(loaded, log),
        rates=_rates(loaded),
        user_keys=models.user_keys(loaded),
        jail_secrets=limits.secrets,
        secrets=vault_secrets_and_redactor.secrets(loaded),
        effective_limits=limits.effective,
        caps=limits.caps,
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
        write=lambda id, files: workspaces.prepare_from_files(files, id=id),
        staged=StagedFiles(workspaces.home.staged_files),
        open_source=host.sandbox,
        refused_settings=lambda record: settings_for(loaded, record).refused,
        environments=environments_of(loaded),
    )


def _run_defaults(loaded: LoadedSettings, policies: Policies, record: Record) -> RunDefaults:
    own = settings_for(loaded, record)
    named_by = own.origins["persona"] if own.is_from_repository("persona") else ""
    return RunDefaults(
        policies=policies,
        load_persona=RunPersonas(own.paths.personas, own.settings.persona, named_by).load,
        find_persona=lambda name, tools: find_persona(name, own.paths.personas, tools),
        prices=parse_prices(own.settings.models.prices),
        ignore=own.settings.ignore,
    )


def _performer(loaded: LoadedSettings, dependencies: HostDependencies, limits: SessionLimits) -> Performer:
    return Performer(
        defaults=partial(_run_defaults, loaded, limits.policies),
        default_model=loaded.settings.model,
        choose_model=models.models_of(loaded).choose,
        network=limits.network,
        limits_cap=limits.run_cap,
        forges=lambda: forges_of(loaded),
        delivery=lambda: delivery_context(loaded, dependencies.rows, dependencies.log),
        helper_limits=HelperLimits(**dict(loaded.settings.helpers)),
        extensions=extensions_of(loaded, limits),
        hooks=hooks_of(loaded),
    )
