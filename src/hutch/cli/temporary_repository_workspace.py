"""A workspace of a repository for one command: prepared as for a session, and removed afterwards."""

import asyncio
import functools
import inspect
import sys
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from typing import Annotated, Any, TypeVar

import typer

from hutch import settings
from hutch.app import configure_logs, jails
from hutch.app.allowed_local_repositories import repositories_of
from hutch.app.forges import forges_of
from hutch.app.repository_dependencies import environments_of
from hutch.app.user_accounts import accounts
from hutch.app.workspaces import open_workspace, settings_for, workspaces_of
from hutch.cli.async_stdio import Inlet
from hutch.cli.dependency_setup_confirmation import accept_by_key, can_ask
from hutch.cli.jailed_program_input_output import ProgramRequest, on_pipes, on_terminal
from hutch.cli.lent_terminal import OwnTerminal, known_type
from hutch.cli.new_session_request_body import expand_home
from hutch.domain.errors import BadRequest, HutchError, NotARepository
from hutch.environment.layers.layer_paths_and_variables import merged_environment, session_variables
from hutch.environment.plan_description import describe_plan
from hutch.flows.repository_dependencies import Environments, Prepared
from hutch.flows.user_running_hutch import system_user
from hutch.forge.forge_and_credential_selection import COMMAND_LINE
from hutch.forge.repo_url import from_path
from hutch.jail.shared_terminal import open_terminal
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import printable
from hutch.workspace.lifecycle.workspace_record_and_directories import Record
from hutch.workspace.workspaces import new_workspace_id

Repository = Annotated[
    str,
    typer.Argument(
        metavar="DIR", help="A repository, or its address; by default that of the current directory."
    ),
]
Revision = Annotated[
    str | None, typer.Option("--revision", "-r", metavar="REV", help="A branch, a tag or a commit.")
]
Uncommitted = Annotated[bool, typer.Option("--uncommitted", help="Include uncommitted changes.")]
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """A workspace of a repository for one command."""

    loaded: settings.LoadedSettings
    environments: Environments
    owner: str
    record: Record
    prepared: Prepared

    async def allowed_hosts(self) -> tuple[str, ...]:
        """The hosts that the build may reach."""
        if not self.prepared.plan.steps:
            return ()
        return (await self.environments.registries(self.prepared.plan, self.prepared.settings)).hosts

    async def accept(self, *, yes: bool, asks: bool) -> None:
        """Accept the set-up: by an option, by an earlier acceptance, or by a key. Refuses without one."""
        if not yes and await self.environments.may_run(self.owner, self.record, self.prepared):
            return
        if not yes and not (asks and await self.ask()):
            raise BadRequest("The set-up was not accepted, so nothing was run. Accept it with --yes.")
        await self.environments.accept("", self.record, self.prepared.plan)

    async def ask(self) -> bool:
        """Show the set-up, and take one key."""
        return can_ask() and accept_by_key(describe_plan(self.prepared.plan, await self.allowed_hosts()))


def on_repository(command: Callable[..., Coroutine[Any, Any, Result]]) -> Callable[..., Result]:
    """A command on the workspace of a repository: adds the options that name it, and gives the workspace."""

    def source(
        repo: Repository = ".", revision: Revision = None, uncommitted: Uncommitted = False
    ) -> AbstractAsyncContextManager[RepositoryPlace]:
        return open_repository(repo, revision, uncommitted=uncommitted)

    own = list(inspect.signature(command).parameters.values())[1:]
    named = inspect.signature(source).parameters

    @functools.wraps(command)
    def run(**given: Any) -> Result:
        async def work() -> Result:
            async with source(**{name: given.pop(name) for name in named}) as place:
                return await command(place, **given)

        return asyncio.run(work())

    options = [*named.values(), *own]
    as_options = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in options]
    run.__signature__ = inspect.Signature(as_options)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in options}
    return run


def load_settings() -> settings.LoadedSettings:
    loaded = settings.load()
    configure_logs(loaded, quiet=True)
    return loaded


def say(sentence: str) -> None:
    sys.stderr.write(f"hutch: {printable(sentence)}\n")


@asynccontextmanager
async def open_repository(
    repo: str, revision: str | None, *, uncommitted: bool
) -> AsyncIterator[RepositoryPlace]:
    """A workspace of the repository, as a session would get it; removed afterwards."""
    loaded = load_settings()
    workspaces = workspaces_of(loaded)
    url = await forges_of(loaded).resolve_url(expand_home(repo), COMMAND_LINE)
    if url.path is not None:
        root = await asyncio.to_thread(repositories_of(loaded).find_root, url.path, unrestricted=True)
        url = replace(from_path(root), account=url.account)
    async with accounts(loaded) as found:
        owner = (await found.ensure_owner(await asyncio.to_thread(system_user))).id
    id = new_workspace_id(f"environment-{url.name}")
    try:
        record = await workspaces.prepare(url, id=id, revision=revision, uncommitted=uncommitted)
    except NotARepository:
        raise BadRequest(
            f"'{url.path}' is not a git repository. Name one, or run `git init` there."
        ) from None
    try:
        environments = environments_of(loaded)
        prepared = await environments.prepare(owner, record)
        for sentence in settings_for(loaded, record).refused:
            say(f"warning: {sentence}")
        yield RepositoryPlace(loaded, environments, owner, record, prepared)
    finally:
        await asyncio.shield(asyncio.ensure_future(workspaces.remove(id)))


def confirm_revision(repository: str, revision: str, *, uncommitted: bool) -> None:
    """Before a run on a revision, a bare repository or an address: ask for a set-up that is not accepted."""
    asyncio.run(_confirm_revision(repository, revision, uncommitted=uncommitted))


async def _confirm_revision(repository: str, revision: str, *, uncommitted: bool) -> None:
    with suppress(HutchError):  # the run meets the same error, and reports it
        async with open_repository(repository, revision or None, uncommitted=uncommitted) as place:
            may_run = await place.environments.may_run(place.owner, place.record, place.prepared)
            if place.prepared.plan.steps and not may_run and await place.ask():
                await place.environments.accept("", place.record, place.prepared.plan)


async def run_shell(loaded: settings.LoadedSettings, record: Record, command: str) -> int:
    own = OwnTerminal() if OwnTerminal.is_there() else None
    environments = environments_of(loaded)
    layers = [layer for key in record.layers if (layer := environments.store.find(key))]
    policy = environments.policy(record)
    variables = merged_environment(policy.environment, session_variables(layers))
    request = ProgramRequest(
        ("/bin/bash", "-c", command) if command else (), {"TERM": known_type(settings.terminal_type())}, None
    )
    async with open_workspace(loaded, record.id) as workspace:
        rules = await workspace.policy(replace(policy, environment=variables))
        async with jails.open_jail(workspace.place, rules) as jail:
            if own is None:
                exit_ = await on_pipes(jail, request)
            else:
                opening = open_terminal(jail, request.words, size=own.size(), env=request.env)
                exit_ = await on_terminal(jail, request, own, Inlet(0), opening)
    return exit_.code if exit_.code is not None else 128 + (exit_.signal or 0)
