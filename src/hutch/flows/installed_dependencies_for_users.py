"""Installed dependencies for users of a server: what they build and remove is their own.

Everyone who may read a session sees its set-up, and why it failed.

Layers of other owners do not exist for a caller. Owners of the installation see and remove all.
"""

import asyncio

from hutch.domain.dependency_plan import EnvironmentPlan
from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.user import Caller
from hutch.environment.layers.layer_store import BuildFailure, Layer, LayerUse
from hutch.flows.flow_services import Services
from hutch.flows.repository_dependencies import Environments
from hutch.flows.session_permissions import check_may_open
from hutch.flows.sessions import allowed
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_record_and_directories import Record


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """The set-up of a session's repository, and whether it was accepted and built."""

    plan: EnvironmentPlan
    layer: str  # the key
    is_accepted: bool
    built: Layer | None
    attached: tuple[str, ...]  # paths of the session that have dependencies
    failure: BuildFailure | None = None
    missing_tools: tuple[str, ...] = ()  # sentences about tools that the repository asks for


async def layers(services: Services, who: Caller) -> list[LayerUse]:
    """The layers that the caller may see."""
    uses = await asyncio.to_thread(_environments(services).store.uses)
    return [use for use in uses if who.is_owner or use.layer.owner in ("", who.user.id)]


async def remove(services: Services, who: Caller, key: str) -> None:
    """Remove a layer of the caller; shared ones are removed by owners of the installation."""
    who.need("write")
    store = _environments(services).store
    layer = await asyncio.to_thread(store.resolve, key, None if who.is_owner else who.user.id)
    await asyncio.to_thread(store.remove, layer.key)


async def show(services: Services, who: Caller, session_id: str) -> SessionEnvironment:
    """The set-up of a session's repository, as its files are now."""
    session = await allowed(services, who, session_id)
    environments, record = _environments(services), await _record(services, session.workspace_id)
    prepared = await environments.prepare(session.owner, record)
    built = {layer.key: layer for layer in await asyncio.to_thread(environments.store.layers)}
    accepted = await environments.may_run(session.owner, record, prepared)
    failure = await asyncio.to_thread(environments.store.failure, prepared.key)
    return SessionEnvironment(
        prepared.plan,
        prepared.key,
        accepted,
        built.get(prepared.key),
        record.layer_roots,
        failure,
        prepared.missing_tools,
    )


async def read_log(services: Services, who: Caller, session_id: str) -> list[str]:
    """The output of the build whose result the session has, or of the last one of its set-up."""
    session = await allowed(services, who, session_id)
    environments, record = _environments(services), await _record(services, session.workspace_id)
    key = (*record.layers, "")[0] or (await environments.prepare(session.owner, record)).key
    lines = await asyncio.to_thread(environments.store.read_log, key)
    return [services.redactor.redact(line) for line in lines]


async def build(services: Services, who: Caller, session_id: str, *, layer: str = "") -> SessionEnvironment:
    """Accept the set-up of a session's repository and build it, for later sessions.

    `layer` is the key that the caller was shown: a set-up that has changed since is not accepted.
    """
    check_may_open(who)
    session = await allowed(services, who, session_id, "manage")
    environments, record = _environments(services), await _record(services, session.workspace_id)
    prepared = await environments.prepare(session.owner, record)
    if not prepared.plan.steps:
        raise BadRequest("Nothing to install was found in the repository of this session.")
    if layer and layer != prepared.key:
        raise Conflict(f"The set-up has changed: it is {prepared.key[:12]} now. Look at it again.")
    await environments.accept(session.owner, record, prepared.plan)
    made = await environments.build(session.owner, record)
    assert made is not None
    if isinstance(made, BuildFailure):
        return SessionEnvironment(prepared.plan, prepared.key, True, None, record.layer_roots, made)
    return SessionEnvironment(prepared.plan, made.key, True, made, record.layer_roots)


def _environments(services: Services) -> Environments:
    if services.environments is None:
        raise NotFound("Dependencies are not installed here.")
    return services.environments


async def _record(services: Services, workspace_id: str) -> Record:
    if not workspace_id:
        raise Conflict("The session is not prepared yet. Try again when its workspace is ready.")
    return await asyncio.to_thread(Record.read, _environments(services).home.workspace(workspace_id))
