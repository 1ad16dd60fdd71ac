"""Changes the options of an open session."""

from typing import Annotated

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.generation_option_fields import GenerationFields
from hutch.flows import session_option_changes as flow
from hutch.flows.session_option_changes import SessionChange
from hutch.gateway.auth.caller_dependency import Writer
from hutch.gateway.request_and_response_bodies import In, answer
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.run_and_command_limit_fields import Limits, ResourcesIn
from hutch.gateway.rest.sessions import SessionOut, shown_json

routes = router("sessions")


class SessionChangeIn(In):
    """The options to change. Omitted ones stay; null in `limits`, `resources` and `generation` means the
    default again."""

    persona: Annotated[str, Field(max_length=100)] | None = Field(
        None, description="The persona; empty: that of the settings."
    )
    model: Annotated[str, Field(max_length=500)] | None = Field(
        None, description="`provider:name`; empty: that of the persona or the settings."
    )
    network: list[Annotated[str, Field(min_length=1, max_length=300)]] | None = Field(
        None, max_length=100, description="All hosts that commands may reach from now on."
    )
    limits: Limits = Field(default_factory=Limits)
    resources: ResourcesIn = Field(default_factory=ResourcesIn)
    generation: GenerationFields = Field(default_factory=GenerationFields)


class ChangedSessionOut(SessionOut):
    """The session as it is now."""

    waiting: list[str] = Field(
        description="Limits that could not be raised in the open jail. They apply with the next one: after "
        "the session was paused or parked."
    )


@routes.patch("/sessions/{session_id}", operation_id="change_session", response_model=ChangedSessionOut)
async def change(request: Request, caller: Writer, session_id: str, body: SessionChangeIn) -> Response:
    """Change the options of a session. A run at work has them from its next turn on, in the same jail.

    Only the session's owner and owners of the server may. The log has a `session.changed`.
    """
    services = server_of(request).services
    asked = SessionChange(
        persona=body.persona,
        model=body.model,
        network=None if body.network is None else tuple(body.network),
        **{name: getattr(body, name).model_dump(exclude_unset=True) for name in flow.GROUPS},
    )
    changed = await flow.change(services, caller, session_id, asked)
    return answer({**await shown_json(services, caller, session_id), "waiting": changed.waiting})
