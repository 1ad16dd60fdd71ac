"""A user's preferences, and model keys of their own."""

from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.flows.preferences import MAX_EDITOR_CHARS, Preferences, Theme, change_preferences, read_preferences
from hutch.flows.user_model_keys import MAX_KEY_CHARS, delete_key, list_keys, set_key
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader, Writer
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of

routes = router("preferences")

Provider = Annotated[str, Path(max_length=40, examples=["anthropic"])]


@fields_from(Preferences)
class PreferencesOut(Out):
    """Your preferences; an empty text means that there is none."""


class PreferencesIn(In):
    """Preferences to change; an empty text removes one."""

    model: str | None = Field(None, max_length=500, description="`provider:name`, for your new sessions.")
    persona: str | None = Field(None, max_length=100, description="The persona of your new sessions.")
    theme: Theme | None = None
    editor: str | None = Field(None, max_length=MAX_EDITOR_CHARS, description="The command of your editor.")


class ModelKeysOut(Out):
    """The providers for which you have a key of your own. Keys are never returned."""

    providers: list[str]


class ModelKeyIn(In):
    key: str = Field(min_length=1, max_length=MAX_KEY_CHARS, json_schema_extra={"writeOnly": True})


@routes.get("/users/me/preferences", response_model=PreferencesOut)
async def get_preferences(request: Request, caller: Reader) -> Response:
    """Your preferences. They are the defaults of your new sessions, before those of the server."""
    return answer(await read_preferences(server_of(request).services, caller.user.id))


@routes.patch("/users/me/preferences", response_model=PreferencesOut)
async def set_preferences(request: Request, caller: Writer, body: PreferencesIn) -> Response:
    """Change your preferences; fields that are absent stay as they are."""
    changes = body.model_dump(exclude_none=True)
    return answer(await change_preferences(server_of(request).services, caller, changes))


@routes.get("/users/me/model-keys", response_model=ModelKeysOut)
async def list_model_keys(request: Request, caller: Reader) -> Response:
    """The providers for which you have a key of your own."""
    return answer({"providers": await list_keys(server_of(request).services, caller)})


@routes.put("/users/me/model-keys/{provider}", status_code=204)
async def set_model_key(
    request: Request, caller: Writer, authenticator: AuthenticatorDep, provider: Provider, body: ModelKeyIn
) -> Response:
    """Store a key of your own. It is used for the runs that you start in your own sessions."""
    await set_key(server_of(request).services, caller, provider, body.key)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "model_key.set", provider)
    return Response(status_code=204)


@routes.delete("/users/me/model-keys/{provider}", status_code=204)
async def delete_model_key(
    request: Request, caller: Writer, authenticator: AuthenticatorDep, provider: Provider
) -> Response:
    """Delete a key of your own."""
    await delete_key(server_of(request).services, caller, provider)
    actor = authenticator.actor(request.scope, caller)
    await authenticator.accounts.note(actor, "model_key.deleted", provider)
    return Response(status_code=204)
