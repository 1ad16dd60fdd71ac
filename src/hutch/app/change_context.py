"""The contexts of the flows about changes, built from the settings."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from hutch.agent.tools.interface import Context
from hutch.app import model_selection
from hutch.app.forges import forges_of
from hutch.app.member_network_cap import network_cap
from hutch.app.workspace_jails import open_sandbox
from hutch.app.workspaces import settings_for, workspaces_of
from hutch.domain.commit_text import DEFAULT_AUTHOR
from hutch.flows.change_context import ChangeContext
from hutch.flows.delivery.baseline_tests import Scratch
from hutch.flows.delivery.driver import DeliveryContext
from hutch.flows.member_network_cap import session_network
from hutch.settings import LoadedSettings
from hutch.store.interface import EventLog
from hutch.store.table_access import Rows
from hutch.system.file_lock import locked_async
from hutch.workspace.workspaces import fork_workspace


def change_context(loaded: LoadedSettings, rows: Rows, log: EventLog) -> ChangeContext:
    return ChangeContext(
        rows,
        log,
        forges_of(loaded),
        model_selection.redactor(loaded),
        partial(_lock, loaded.paths.data / "locks"),
        loaded.settings.delivery.author or DEFAULT_AUTHOR,
    )


def delivery_context(loaded: LoadedSettings, rows: Rows, log: EventLog) -> DeliveryContext:
    return DeliveryContext(
        change_context(loaded, rows, log),
        partial(_open_scratch, loaded),
        partial(session_network, network_cap(loaded.settings), rows),
        loaded.settings.server.public_url or "",
    )


@asynccontextmanager
async def _lock(directory: Path, name: str) -> AsyncIterator[None]:
    await asyncio.to_thread(directory.mkdir, mode=0o700, parents=True, exist_ok=True)
    async with locked_async(directory / f"{name}.lock"):
        yield


@asynccontextmanager
async def _open_scratch(loaded: LoadedSettings, scratch: Scratch) -> AsyncIterator[Context]:
    workspaces = workspaces_of(loaded)
    if any(record.id == scratch.id for record in await workspaces.records()):
        await workspaces.remove(scratch.id)  # left by a process that was killed
    record = await fork_workspace(scratch.workspace, scratch.snapshot, scratch.id)
    try:
        async with open_sandbox(loaded, record.id, network=scratch.network) as sandbox:
            settings = settings_for(loaded, record).settings
            yield Context(
                sandbox.workspace,
                sandbox.jail,
                sandbox.shells,
                ignore=settings.ignore,
                test_command=scratch.test_command or settings.tests.command,
                test_timeout_s=settings.tests.timeout_s,
                test_memory_bytes=settings.tests.memory_bytes,
            )
    finally:
        await workspaces.remove(record.id)
