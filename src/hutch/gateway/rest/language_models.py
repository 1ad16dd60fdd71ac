"""The usable models, and the default one."""

from fastapi import Request, Response
from pydantic import Field

from hutch.flows.model_list import ProviderState
from hutch.gateway.auth.caller_dependency import Reader
from hutch.gateway.request_and_response_bodies import Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of

routes = router("models")


@fields_from(ProviderState, "name usable reason default_model")
class ProviderOut(Out):
    """A provider of models."""

    reason: str = Field(description="Why it is usable, or what is missing.")
    default_model: str | None = Field(description="`provider:name`, if there is one.")


class ModelsOut(Out):
    """The usable providers. Keys are never returned."""

    default: str = Field(description="The model of sessions that name none.")
    reason: str = Field(description="Why it is the default.")
    providers: list[ProviderOut]


@routes.get("/models", operation_id="list_models", response_model=ModelsOut)
async def listed(request: Request, caller: Reader) -> Response:
    """The usable providers, and the default model. Keys of your own count."""
    choice, providers = await server_of(request).list_models(caller.user.id)
    name = choice.name if caller.is_owner or not choice.name.startswith("scripted:") else "scripted"
    return answer({"default": name, "reason": choice.reason, "providers": providers})
