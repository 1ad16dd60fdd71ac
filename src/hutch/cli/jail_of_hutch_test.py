"""The jail of `hutch test`: on the directory itself, or on a copy that has the installed dependencies."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.app import jails
from hutch.app.repository_dependencies import environments_of
from hutch.app.user_accounts import accounts
from hutch.app.workspaces import open_workspace
from hutch.cli.temporary_repository_workspace import open_repository, say
from hutch.environment.layers.layer_paths_and_variables import merged_environment, session_variables
from hutch.environment.layers.layer_store import Layer
from hutch.flows.user_running_hutch import system_user
from hutch.jail.egress_proxy_startup import Outside
from hutch.jail.policy import Policy
from hutch.jail.running_jail import Jailed
from hutch.settings import LoadedSettings
from hutch.workspace.workspace import Workspace

IN_A_COPY = (
    "the tests run in a copy of {directory} that has the installed dependencies. It lacks what git ignores, "
    "and is removed afterwards."
)
NOT_WATCHED = (
    "warning: --watch runs in {directory} itself, which lacks the installed dependencies. "
    "`hutch test` without --watch has them."
)


@asynccontextmanager
async def open_for_tests(
    loaded: LoadedSettings, directory: Path, policy: Policy, outside: Outside, *, watch: bool
) -> AsyncIterator[tuple[Jailed, Workspace | None]]:
    """A jail for tests, with the copy that it is open on; None if it is open on the directory.

    A directory cannot have a layer below it unless Hutch writes into it, so tests that need one get a copy.
    """
    layer = await _find_layer(loaded, directory)
    if layer and watch:  # changes are made in the directory, and a copy does not see them
        say(NOT_WATCHED.format(directory=directory))
    async with AsyncExitStack() as stack:
        copy = await _open_copy(stack, loaded, directory) if layer and not watch else None
        if copy is None:
            yield await stack.enter_async_context(jails.open_jail(directory, policy, outside=outside)), None
            return
        say(IN_A_COPY.format(directory=directory))
        store = environments_of(loaded).store
        layers = [found for key in copy.record.layers if (found := await asyncio.to_thread(store.find, key))]
        variables = merged_environment(policy.environment, session_variables(layers))
        rules = await copy.policy(replace(policy, environment=variables, also_at=()))
        yield await stack.enter_async_context(jails.open_jail(copy.place, rules, outside=outside)), copy


async def _find_layer(loaded: LoadedSettings, directory: Path) -> Layer | None:
    """The built layer of a repository that has no packages of its own."""
    if not await asyncio.to_thread((directory / ".git").exists):
        return None
    async with accounts(loaded) as found:
        owner = (await found.ensure_owner(await asyncio.to_thread(system_user))).id
    return await environments_of(loaded).find_missing_in(directory, owner)


async def _open_copy(stack: AsyncExitStack, loaded: LoadedSettings, directory: Path) -> Workspace | None:
    place = await stack.enter_async_context(open_repository(str(directory), None, uncommitted=True))
    provided = await place.environments.provide(place.owner, place.record)
    for warning in provided.warnings:
        say(f"warning: {warning}")
    if not provided.record.layers:
        return None
    return await stack.enter_async_context(open_workspace(loaded, provided.record.id))
