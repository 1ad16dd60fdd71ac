"""Models: which can be used here, and which one is when nobody names one."""

from fastapi import Request, Response
from pydantic import Field

from hutch.flows.model_list import ProviderState
from hutch.gateway.auth.caller import Reader
from hutch.gateway.responses import Out, answer, fields_from
from hutch.gateway.rest.route import router, server_of

routes = router("models")


@fields_from(ProviderState, "name usable reason default_model")
class ProviderOut(Out):
    """A provider of models."""

    reason: str = Field(description="Why it can be used, or what is missing.")
    default_model: str | None = Field(description="`provider:name`, when one is known.")


class ModelsOut(Out):
    """The usable providers. Keys are never returned."""

    default: str = Field(description="What a session without a model of its own uses.")
    reason: str = Field(description="Why it is that one.")
    providers: list[ProviderOut]


@routes.get("/models", operation_id="list_models", response_model=ModelsOut)
async def listed(request: Request, caller: Reader) -> Response:
    """The providers that can be used here, and the default model."""
    choice, providers = await server_of(request).list_models()
    name = choice.name if caller.is_owner or not choice.name.startswith("scripted:") else "scripted"
    return answer({"default": name, "reason": choice.reason, "providers": providers})
