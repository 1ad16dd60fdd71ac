"""Dependencies of a repository for its sessions: planned, accepted, installed once, shared, removed.

A failure never stops a session: it goes on without, and its user and its agent learn why.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import structlog

from hutch.domain.dependency_plan import EnvironmentPlan
from hutch.domain.errors import Conflict, HutchError, NotFound
from hutch.domain.events import (
    EnvironmentAttached,
    EnvironmentBuildStarted,
    EnvironmentBuilt,
    EnvironmentFailed,
    Event,
)
from hutch.environment.layers.accepted_plans import AcceptedPlans
from hutch.environment.layers.build_input_files import InputFile, read_inputs
from hutch.environment.layers.layer_build import CACHE, BuildRequest, build_layer
from hutch.environment.layers.layer_key import Scope, describe_machine, layer_key
from hutch.environment.layers.layer_paths_and_variables import visible_roots
from hutch.environment.layers.layer_store import TREE, BuildFailure, Layer, LayerStore
from hutch.environment.package_registry_hosts import PRESETS, Registries, resolve_registries
from hutch.environment.plan_description import describe_for_agent, shown_command
from hutch.environment.plan_selection import EnvironmentSettings, make_plan
from hutch.environment.requested_tool_check import describe_tools
from hutch.forge.host_git import Git, GitFailed
from hutch.jail.policy import Policy
from hutch.snapshots.confined_directory import Directory
from hutch.system.file_lock import locked_async
from hutch.system.lazy_dataclass import dataclass
from hutch.system.terminal_safe_text import one_line
from hutch.workspace.admission.directory_checks import OwnDirectories
from hutch.workspace.lifecycle.shared_base_checkout import tree_path
from hutch.workspace.lifecycle.workspace_mount import mount_directory
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record

logger = structlog.get_logger()
NOT_ACCEPTED = (
    "Dependencies were not installed, because nobody has accepted the set-up yet: {steps}. Accept it with "
    "`hutch environment build`, or set environment.auto = true."
)
MAX_OUTPUT_CHARS = 4000
MAX_STEPS_CHARS = 300
Append = Callable[[Sequence[Event]], Awaitable[object]]
OnLine = Callable[[str], None]


async def _ignore(events: Sequence[Event]) -> None:
    """For callers without a log."""


@dataclass(frozen=True, slots=True)
class Provided:
    """A workspace, with its dependencies if they could be installed."""

    record: Record
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The plan for a workspace, and the layer that it stands for."""

    plan: EnvironmentPlan
    scope: Scope
    key: str
    inputs: Sequence[InputFile]
    settings: EnvironmentSettings
    missing_tools: tuple[str, ...] = ()  # sentences about tools that jails lack


@dataclass(frozen=True, slots=True, kw_only=True)
class Environments:
    """The environments of an installation; `app/` builds it."""

    home: Home
    git: Git
    settings: Callable[[Record], EnvironmentSettings]
    policy: Callable[[Record], Policy]  # of commands in the repository's jails, for the limits of a build
    indexes: Mapping[str, str]  # the user's variables that name package indexes
    own: OwnDirectories | None = None  # of Hutch, which no toolchain may be in; the data if not set

    @property
    def store(self) -> LayerStore:
        return LayerStore(self.home)

    @property
    def accepted(self) -> AcceptedPlans:
        return AcceptedPlans(self.home.data / "accepted-plans")

    async def prepare(self, owner: str, record: Record) -> Prepared:
        """The plan for a workspace, from its files and settings. Nothing is run."""
        return await asyncio.to_thread(self._prepare, owner, record)

    async def provide(
        self, owner: str, record: Record, append: Append = _ignore, on_line: OnLine = lambda line: None
    ) -> Provided:
        """Install the dependencies of a new workspace, or use the layer that has them."""
        if record.layers:
            return Provided(record)
        try:
            prepared = await self.prepare(owner, record)
            if not prepared.plan.steps:
                return await self._without_layer(record, prepared, prepared.missing_tools)
            if not await self.may_run(owner, record, prepared):
                steps = "; ".join(map(shown_command, (step.command for step in prepared.plan.steps)))
                warning = NOT_ACCEPTED.format(steps=one_line(steps, MAX_STEPS_CHARS))
                return await self._without_layer(record, prepared, (*prepared.missing_tools, warning))
            provided = await self._provide(record, prepared, append, on_line)
            return replace(provided, warnings=(*prepared.missing_tools, *provided.warnings))
        except (HutchError, OSError) as error:
            logger.warning("environment.unavailable", workspace=record.id, error=str(error))
            return Provided(record, (f"Dependencies were not installed: {error}",))

    async def _without_layer(
        self, record: Record, prepared: Prepared, warnings: tuple[str, ...], failure: Sequence[str] = ()
    ) -> Provided:
        """A workspace without installed packages. Its agent learns why, and of services and missing tools."""
        plan = prepared.plan
        text = describe_for_agent(
            plan, failure=failure, is_accepted=bool(failure), missing_tools=prepared.missing_tools
        )
        variables = {} if plan.steps else dict(plan.session_variables)
        if not text and not variables:
            return Provided(record, warnings)
        updated = replace(record, environment=text, variables=variables)
        await asyncio.to_thread(updated.write, self.home.workspace(record.id))
        return Provided(updated, warnings)

    async def build(
        self, owner: str, record: Record, on_line: OnLine = lambda line: None
    ) -> Layer | BuildFailure | None:
        """Build the layer of a workspace, or find it. None if there is nothing to install.

        A layer of which a command failed is built again, unless a workspace uses it.
        """
        prepared = await self.prepare(owner, record)
        if not prepared.plan.steps:
            return None
        await asyncio.to_thread(self._remove_incomplete, prepared.key)
        async with locked_async(self.store.lock_path(prepared.key)):
            return await self._find_or_build(record, prepared, _ignore, on_line)

    async def accept(self, owner: str, record: Record, plan: EnvironmentPlan) -> None:
        await asyncio.to_thread(self.accepted.accept, owner, record.source, plan)

    async def collect(self) -> list[str]:
        """Remove layers by age and size, none that a workspace uses."""
        limits = self.settings(_NO_RECORD)
        return await asyncio.to_thread(
            self.store.collect, max_bytes=limits.total_bytes, max_days=limits.retention_days
        )

    async def find_missing_in(self, directory: Path, owner: str) -> Layer | None:
        """The layer of a user's directory as its files are now, if it is built and has packages that the
        directory lacks. The settings are those of the directory."""
        return await asyncio.to_thread(self._find_missing_in, directory, owner)

    def _find_missing_in(self, directory: Path, owner: str) -> Layer | None:
        prepared = self._prepare_tree(owner, str(directory), directory, self.settings(_NO_RECORD))
        built = (each for each in self.store.layers() if each.key == prepared.key)
        layer = next(built, None) if prepared.plan.steps else None
        packages = [root for root in layer.roots if root.partition("/")[0] != CACHE] if layer else []
        return layer if any(not os.path.lexists(directory / root) for root in packages) else None

    def _prepare(self, owner: str, record: Record) -> Prepared:
        with self._files(record) as tree:
            return self._prepare_tree(owner, record.source, tree, self.settings(record))

    def _prepare_tree(self, owner: str, source: str, tree: Path, settings: EnvironmentSettings) -> Prepared:
        with Directory.at(tree) as directory:
            plan = make_plan(tree, settings)
            inputs = read_inputs(directory, plan.inputs) if plan.steps else []
        scope = Scope("" if settings.share_between_owners else owner, source)
        key = layer_key(scope, plan, inputs, describe_machine(settings.toolchains))
        own = self.own or OwnDirectories(self.home.data)
        missing = tuple(describe_tools(plan.tools, settings.toolchains, own))
        return Prepared(
            plan=plan, scope=scope, key=key, inputs=inputs, settings=settings, missing_tools=missing
        )

    async def may_run(self, owner: str, record: Record, prepared: Prepared) -> bool:
        """True if the settings allow the set-up, or this user or one of this machine has accepted it."""
        if prepared.settings.auto or prepared.plan.is_configured:
            return True
        accepted = self.accepted
        return await asyncio.to_thread(
            lambda: any(accepted.is_accepted(by, record.source, prepared.plan) for by in ("", owner))
        )

    async def _provide(self, record: Record, prepared: Prepared, append: Append, on_line: OnLine) -> Provided:
        store, key = self.store, prepared.key
        await asyncio.to_thread(store.make)
        # The lock is held until the record names the layer, so that it is not removed.
        async with locked_async(store.lock_path(key), shared=True):
            layer = await asyncio.to_thread(store.find, key)
            if layer is not None:
                return await self._attach(record, prepared, layer, append)
        async with locked_async(store.lock_path(key)):
            made = await self._find_or_build(record, prepared, append, on_line)
            if isinstance(made, Layer):
                provided = await self._attach(record, prepared, made, append)
                await self.collect()
                return provided
        lines = (*made.last_lines, made.reason, *(f"Not reached: {host}" for host in made.denied))
        blocked = f"Not reached: {made.denied[0]} " if made.denied else ""  # with what to do about it
        warnings = (f"Dependencies were not installed. {blocked}{made.reason}",)
        return await self._without_layer(record, prepared, warnings, lines)

    async def _find_or_build(
        self, record: Record, prepared: Prepared, append: Append, on_line: OnLine
    ) -> Layer | BuildFailure:
        """The caller holds the lock of the layer."""
        store, key, plan = self.store, prepared.key, prepared.plan
        found = await asyncio.to_thread(store.find, key)
        if found is not None:
            return found
        registries = await self.registries(plan, prepared.settings)
        hosts = registries.hosts
        request = BuildRequest(
            key=key,
            scope=prepared.scope,
            plan=plan,
            inputs=prepared.inputs,
            policy=replace(self.policy(record), network=hosts),
            variables=registries.variables,
            commit=await asyncio.to_thread(self._commit_of, record, prepared),
            private_networks=prepared.settings.private_networks,
            max_bytes=prepared.settings.max_bytes,
            timeout_s=prepared.settings.timeout_s,
        )
        steps = tuple(step.command for step in plan.steps)
        await append([EnvironmentBuildStarted(layer=key, steps=steps, inputs=plan.inputs, hosts=hosts)])
        began, downloads = time.monotonic(), await self._downloads(record, prepared)
        made = await build_layer(store, request, on_line, downloads)
        await asyncio.to_thread(store.note_failure, key, made if isinstance(made, BuildFailure) else None)
        duration_s = round(time.monotonic() - began, 3)
        if isinstance(made, Layer):
            await append(
                [
                    EnvironmentBuilt(
                        layer=key,
                        bytes=made.bytes,
                        files=made.files,
                        dropped=made.dropped,
                        failed=made.failed,
                        duration_s=duration_s,
                    )
                ]
            )
        else:
            output = "\n".join(made.last_lines)[-MAX_OUTPUT_CHARS:]
            await append(
                [
                    EnvironmentFailed(
                        layer=key,
                        reason=made.reason,
                        output=output,
                        denied=made.denied,
                        duration_s=duration_s,
                    )
                ]
            )
        return made

    async def registries(self, plan: EnvironmentPlan, settings: EnvironmentSettings) -> Registries:
        """The registries that owners allow: of package managers only those that the plan uses, if known."""
        managers = plan.managers
        names = [
            each for each in settings.registries if each not in PRESETS or not managers or each in managers
        ]
        await asyncio.to_thread(self.store.make)
        return await resolve_registries(names, indexes=self.indexes, ask_in=self.home.layers)

    async def _attach(self, record: Record, prepared: Prepared, layer: Layer, append: Append) -> Provided:
        attached = await asyncio.to_thread(self._write_attached, record, prepared, layer)
        await append(
            [EnvironmentAttached(layer=layer.key, roots=attached.layer_roots[:100], bytes=layer.bytes)]
        )
        return Provided(attached, tuple(f"A command of the set-up failed: {each}" for each in layer.failed))

    def _write_attached(self, record: Record, prepared: Prepared, layer: Layer) -> Record:
        with self._files(record) as tree, Directory.at(tree) as directory:
            roots = visible_roots(layer, self.home.layer(layer.key) / TREE, directory)
        text = describe_for_agent(
            prepared.plan, dropped=layer.dropped, failed=layer.failed, missing_tools=prepared.missing_tools
        )
        attached = replace(record, layers=(layer.key,), layer_roots=roots, environment=text)
        self._check_mountable(attached)
        attached.write(self.home.workspace(record.id))
        return attached

    def _remove_incomplete(self, key: str) -> None:
        self.store.make()
        if any(layer.key == key and layer.failed for layer in self.store.layers()):
            with suppress(Conflict, NotFound):
                self.store.remove(key)

    def _commit_of(self, record: Record, prepared: Prepared) -> str:
        """The commit whose files the set-up has; empty if a user or an agent has changed one of them."""
        if not record.base or not record.commit:
            return ""
        tree = tree_path(self.home, record.base)
        with Directory.at(tree) as directory:
            plan = make_plan(tree, prepared.settings)
            is_same = plan == prepared.plan and read_inputs(directory, plan.inputs) == prepared.inputs
        return record.commit if is_same else ""

    def _check_mountable(self, record: Record) -> None:
        """Refuse a layer where overlays cannot be mounted; tested once for each data directory."""
        if self.home.data in _mountable or record.mode == "overlay":
            return
        mount_directory(self.home, self.home.workspace(record.id), record).close()
        _mountable.add(self.home.data)

    @contextmanager
    def _files(self, record: Record) -> Iterator[Path]:
        """A path to the files of a workspace that is not open."""
        directory = self.home.workspace(record.id)
        if record.mode != "overlay":
            yield directory / "tree"
            return
        assert record.base is not None
        if record.storage == "disk" and not any((directory / "upper").iterdir()):
            yield tree_path(self.home, record.base)
            return
        try:
            mount = mount_directory(self.home, directory, record)
        except Conflict:  # a session has it open: the files of its commit count
            yield tree_path(self.home, record.base)
            return
        try:
            yield Path(f"/proc/self/fd/{mount.directory.fd}/.")
        finally:
            mount.close()

    async def _downloads(self, record: Record, prepared: Prepared) -> Layer | None:
        """The newest layer of this repository whose caches the build may use.

        Files that an install script leaves in a cache become part of later layers. So only layers of commits
        count that this commit contains: it trusts these already.
        """
        if not record.base or not record.commit:
            return None
        git_dir = tree_path(self.home, record.base) / ".git"
        for layer in await asyncio.to_thread(self.store.layers):
            if (layer.owner, layer.repository) != (prepared.scope.owner, prepared.scope.repository):
                continue
            if not layer.commit:
                continue
            try:
                words = ("merge-base", "--is-ancestor", layer.commit, record.commit)
                await self.git.run(*words, git_dir=git_dir)
                return layer
            except GitFailed:
                continue
        return None


_mountable: set[Path] = set()  # data directories where a copy was mounted over a layer
_NO_RECORD = Record(
    id="none", source="", mode="copy", mode_reason="", created="", quota_bytes=0, quota_files=0
)
