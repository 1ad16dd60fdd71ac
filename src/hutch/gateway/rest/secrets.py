"""Secrets, write-only: their names and uses are listed, values are never returned."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

from fastapi import Path, Request, Response
from pydantic import Field

from hutch.flows import installation_and_user_secrets
from hutch.flows.installation_and_user_secrets import Secret
from hutch.gateway.auth.caller_dependency import Admin, AuthenticatorDep, Reader, Writer
from hutch.gateway.request_and_response_bodies import In, Out, Page, answer, fields_from, page
from hutch.gateway.rest.base_route import router, server_of

routes = router("secrets")

MAX_VALUE_CHARS = 64 * 1024
Name = Annotated[str, Path(max_length=200, examples=["anthropic_api_key"])]
Variable = Annotated[str, Path(max_length=128, examples=["STRIPE_KEY"])]


@fields_from(Secret)
class SecretOut(Out):
    """A secret without its value."""

    used_for: str = Field(description="What Hutch uses it for.")
    source: str = Field(
        description="`vault`, or what comes before the vault: `file:PATH`, `command:LINE`, `env:VARIABLE`. "
        "Empty: it is not set."
    )
    stored: bool = Field(description="Whether the vault has one, even if another source comes first.")
    user_id: str = Field(description="The user whose own it is; empty: the installation's.")
    variable: str = Field(description="The variable of jails that it becomes; empty: jails do not get it.")
    sessions: list[str] = Field(description="Open sessions whose jails get it.")


class SecretIn(In):
    value: str = Field(min_length=1, max_length=MAX_VALUE_CHARS, json_schema_extra={"writeOnly": True})


@routes.get("/secrets", response_model=Page[SecretOut])
async def list_secrets(request: Request, caller: Admin) -> Response:
    """The secrets of the installation and of its users: names, sources and uses. For owners."""
    return _listed(request, await installation_and_user_secrets.list_secrets(server_of(request).services))


@routes.put("/secrets/{name}", response_model=SecretOut)
async def set_secret(
    name: Name, body: SecretIn, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> Response:
    """Store a secret, encrypted; an earlier value is replaced. It is used from the next request on."""
    found = await installation_and_user_secrets.set_secret(server_of(request).services, name, body.value)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "secret.set", found.name)
    return answer(asdict(found))


@routes.delete("/secrets/{name}", status_code=204)
async def delete_secret(
    name: Name, request: Request, caller: Admin, authenticator: AuthenticatorDep
) -> Response:
    """Delete a secret. Sessions whose jails get it cannot be opened again."""
    await installation_and_user_secrets.delete_secret(server_of(request).services, name)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "secret.deleted", name)
    return Response(status_code=204)


@routes.get("/users/me/secrets", response_model=Page[SecretOut])
async def list_own_secrets(request: Request, caller: Reader) -> Response:
    """Your own secrets for the jails of your sessions."""
    return _listed(request, await installation_and_user_secrets.list_own(server_of(request).services, caller))


@routes.put("/users/me/secrets/{variable}", response_model=SecretOut)
async def set_own_secret(
    variable: Variable, body: SecretIn, request: Request, caller: Writer, authenticator: AuthenticatorDep
) -> Response:
    """Store a secret of your own. The jail of a session of yours gets it if the session names it."""
    found = await installation_and_user_secrets.set_own(
        server_of(request).services, caller, variable, body.value
    )
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "secret.set", found.name)
    return answer(asdict(found))


@routes.delete("/users/me/secrets/{variable}", status_code=204)
async def delete_own_secret(
    variable: Variable, request: Request, caller: Writer, authenticator: AuthenticatorDep
) -> Response:
    """Delete a secret of your own."""
    name = await installation_and_user_secrets.delete_own(server_of(request).services, caller, variable)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "secret.deleted", name)
    return Response(status_code=204)


def _listed(request: Request, found: Sequence[Secret]) -> Response:
    return page(request, [asdict(each) for each in found], None)
