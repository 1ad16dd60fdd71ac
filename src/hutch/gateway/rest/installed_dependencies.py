"""Installed dependencies: list and remove layers, show and build the set-up of a session's repository."""

from typing import Annotated, Any

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.domain.dependency_plan import SetupStep
from hutch.environment.layers.layer_store import Layer, LayerUse
from hutch.flows import installed_dependencies_for_users as flow
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("environments")

Key = Annotated[
    str,
    Path(min_length=4, max_length=64, pattern="^[0-9a-f]+$", description="The first characters of a key."),
]


@fields_from(Layer, "key repository commit created_ms duration_s bytes files roots steps inputs dropped")
class LayerOut(Out):
    """Installed dependencies that sessions of a repository share."""

    owner: str = Field(description="The user whose sessions use it; empty if all share it.")
    roots: list[str] = Field(description="The paths with dependencies.")
    bytes: int = Field(description="On disk.")
    used_ms: int = Field(description="The last use; 0 if it is not known.")
    workspaces: list[str] = Field(description="Those that use it; it cannot be removed meanwhile.")


@fields_from(SetupStep)
class StepOut(Out):
    """A command of a set-up."""


class FailureOut(Out):
    """The reason why dependencies were not installed."""

    reason: str
    output: list[str] = Field(description="The last lines.")
    denied: list[str] = Field(description="Hosts that were not reached, with the reason.")
    at_ms: int


class EnvironmentOut(Out):
    """The set-up of a session's repository."""

    layer: str = Field(description="The key that stands for it.")
    steps: list[StepOut]
    inputs: list[str] = Field(description="The files that the commands see.")
    notes: list[str] = Field(description="Found and not used, with the reason; tools that jails lack.")
    accepted: bool
    attached: list[str] = Field(description="The paths of this session that have dependencies.")
    built: LayerOut | None = Field(description="Null if it is not built.")
    failure: FailureOut | None = Field(description="Of the last build; null if it did not fail.")


class BuildLogOut(Out):
    """The output of a set-up."""

    lines: list[str] = Field(description="From the first one; at most 4 MiB.")


class BuildIn(In):
    """The set-up that is accepted."""

    layer: str = Field(
        "",
        max_length=64,
        description="The key that GET has shown; a set-up that has changed since is refused. Empty: any.",
    )


@routes.get("/environments", operation_id="list_environments", response_model=Page[LayerOut])
async def listed(request: Request, caller: Reader) -> Response:
    """The installed dependencies that you may see, newest first."""
    found = await flow.layers(server_of(request).services, caller)
    return page(request, [_layer(use.layer, use) for use in found], None)


@routes.delete("/environments/{layer}", operation_id="remove_environment", status_code=204)
async def remove(request: Request, caller: Writer, layer: Key) -> Response:
    """Remove installed dependencies that no workspace uses."""
    await flow.remove(server_of(request).services, caller, layer)
    return Response(status_code=204)


@routes.get(
    "/sessions/{session_id}/environment", operation_id="get_environment", response_model=EnvironmentOut
)
async def show(request: Request, caller: Reader, session_id: str) -> Response:
    """The commands that install the dependencies of a session's repository."""
    return answer(_environment(await flow.show(server_of(request).services, caller, session_id)))


@routes.get(
    "/sessions/{session_id}/environment/log", operation_id="get_environment_log", response_model=BuildLogOut
)
async def log(request: Request, caller: Reader, session_id: str) -> Response:
    """The output of the commands that install the dependencies of a session. Also while they run, or after
    they failed."""
    return answer({"lines": await flow.read_log(server_of(request).services, caller, session_id)})


@routes.post(
    "/sessions/{session_id}/environment", operation_id="build_environment", response_model=EnvironmentOut
)
async def build(
    request: Request, caller: Writer, keyed: ByKey, session_id: str, body: BuildIn | None = None
) -> Response:
    """Accept the set-up of a session's repository and run it, for later sessions. Responds at its end."""
    wanted = body or BuildIn(layer="")
    services = server_of(request).services
    return answer(_environment(await flow.build(services, caller, session_id, layer=wanted.layer)))


def _environment(found: flow.SessionEnvironment) -> dict[str, Any]:
    failure = found.failure
    return {
        "layer": found.layer,
        "steps": [StepOut.of(step) for step in found.plan.steps],
        "inputs": list(found.plan.inputs),
        "notes": [*found.plan.notes, *found.missing_tools],
        "accepted": found.is_accepted,
        "attached": list(found.attached),
        "built": _layer(found.built) if found.built else None,
        "failure": failure
        and {
            "reason": failure.reason,
            "output": list(failure.last_lines),
            "denied": list(failure.denied),
            "at_ms": failure.at_ms,
        },
    }


def _layer(layer: Layer, use: LayerUse | None = None) -> dict[str, Any]:
    names = [name for name in LayerOut.model_fields if name not in ("used_ms", "workspaces")]
    return {
        **{name: getattr(layer, name) for name in names},
        "used_ms": use.used_ms if use else 0,
        "workspaces": list(use.workspaces) if use else [],
    }
