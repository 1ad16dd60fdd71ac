"""Opens a server: everything behind its gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from hutch.app import models, vault_secrets_and_redactor
from hutch.app.allowed_local_repositories import with_fixed_roots
from hutch.app.change_and_delivery_contexts import change_context
from hutch.app.event_log import event_log
from hutch.app.forge_triggers import triggers_of, webhook_secret
from hutch.app.forges import reach_of
from hutch.app.outgoing_webhooks import webhook_sender
from hutch.app.report_service_from_settings import scheduled_reports
from hutch.app.session_file_retention import retention_of
from hutch.app.session_host import local_host, services_of
from hutch.app.throwaway_jail_code_executor import code_executor
from hutch.flows.interviews.interview_services import open_interviews
from hutch.flows.interviews.running_interview_watcher import InterviewWatch
from hutch.flows.legacy_approval_import import import_approvals
from hutch.flows.session_removal_keeping_log import finish_removals
from hutch.flows.task_work.background_task_work import open_task_work, run_task_work
from hutch.flows.user_erasure import finish_erasures
from hutch.gateway.gateway_context import Server
from hutch.settings import LoadedSettings
from hutch.store.database_page_check import check_integrity
from hutch.system.task_cancellation import running


@asynccontextmanager
async def _sound(loaded: LoadedSettings) -> AsyncIterator[None]:
    """Refuse a damaged database before it is used. A PostgreSQL server checks its own."""
    if loaded.settings.database.url is None:
        await asyncio.to_thread(check_integrity, loaded.paths.database)
    yield


@asynccontextmanager
async def open_server(loaded: LoadedSettings) -> AsyncIterator[Server]:
    """Open the log, the session host and the background tasks of a server.

    The caller must hold the lock against a second server on the same data.
    """
    loaded = await asyncio.to_thread(with_fixed_roots, loaded)
    paths, redactor = loaded.paths, vault_secrets_and_redactor.redactor(loaded)
    async with (
        event_log(loaded, log_bytes=loaded.settings.sessions.log_bytes) as log,
        _sound(loaded),
        local_host(loaded, log, redactor) as host,
    ):
        await import_approvals(log, paths.approvals)
        services = services_of(loaded, log, host, redactor, reach=reach_of(loaded))
        triggers = triggers_of(loaded, services)
        banks, limits = loaded.settings.questions.banks, loaded.settings.execution
        interviews = open_interviews(services, banks, code_executor(loaded), limits)
        webhooks = webhook_sender(loaded, log)
        changes = change_context(loaded, log, log)
        task_work = open_task_work(services, changes, **dict(loaded.settings.tasks))
        retention, usage = retention_of(loaded, log), log.usage_projector()
        async with running(
            triggers.run(),
            retention.run(),
            usage.run(),
            log.analytics_projector().run(),
            scheduled_reports(loaded, log, redactor).run(),
            webhooks.run(),
            InterviewWatch(interviews).run(),
            run_task_work(task_work),
            finish_removals(services),
            finish_erasures(services),
        ):
            yield Server(
                *(loaded, services, triggers, interviews, webhooks, task_work, log.database_files, changes),
                list_models=models.models_of(loaded).list_usable,
                read_secrets=partial(vault_secrets_and_redactor.secrets_of, loaded),
                webhook_secret=partial(webhook_secret, loaded),
            )
