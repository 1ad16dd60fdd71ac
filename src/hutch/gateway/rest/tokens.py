"""API tokens. A token is returned only once, when it is created."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.errors import Denied
from hutch.domain.user import SCOPES, Caller, Scope, scopes_of, with_implied
from hutch.flows.user_accounts import MAX_TOKEN_NAME, TOKEN_DAYS
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader
from hutch.gateway.request_and_response_bodies import Cursor, Id, In, Limit, Out, Page, fields_from, paged
from hutch.gateway.rest.base_route import router
from hutch.store.tokens import Token

routes = router("tokens")


@fields_from(Token, "id user_id name prefix scopes created_ms expires_ms last_used_ms revoked_ms")
class TokenOut(Out):
    """The metadata of a token, without its secret."""

    scopes: list[Scope]


class CreatedToken(TokenOut):
    """A new token; `token` is shown only once."""

    token: str


class NewToken(In):
    name: str = Field("", max_length=MAX_TOKEN_NAME)
    scopes: list[Scope] = Field(["read"], min_length=1, max_length=len(SCOPES))
    days: int | None = Field(TOKEN_DAYS, ge=1, le=36_500, description="Null: it does not expire.")


@routes.get("/tokens", response_model=Page[TokenOut])
async def list_tokens(
    request: Request,
    caller: Reader,
    authenticator: AuthenticatorDep,
    everyone: Annotated[bool, Query(description="The tokens of all users; for owners.")] = False,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The caller's tokens, the newest first."""
    if everyone:
        caller.need("admin")
    owner_id = None if everyone else caller.user.id
    found = await authenticator.accounts.tokens.list(owner_id, before=cursor, limit=limit + 1)
    return paged(request, [TokenOut.model_validate(_token_json(token)) for token in found], limit)


@routes.post("/tokens", status_code=201)
async def create_token(
    body: NewToken, request: Request, caller: Reader, authenticator: AuthenticatorDep
) -> CreatedToken:
    """Create a token for yourself, with no more scopes than you have. An Idempotency-Key is ignored."""
    scopes = with_implied(frozenset(body.scopes))
    _check_may_make(caller, scopes)
    token, secret = await authenticator.accounts.new_token(
        caller.user,
        name=body.name,
        scopes=scopes,
        days=body.days,
        actor=authenticator.actor(request.scope, caller),
    )
    return CreatedToken.model_validate({**_token_json(token), "token": secret})


@routes.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(
    token_id: Id, request: Request, caller: Reader, authenticator: AuthenticatorDep
) -> None:
    """Revoke one of your tokens; owners can revoke any. A token may revoke itself."""
    if token_id != caller.credential_id and caller.by == "token":
        caller.need("admin")
    token = await authenticator.accounts.revoke_token(
        token_id,
        authenticator.actor(request.scope, caller),
        user_id=None if caller.is_owner else caller.user.id,
    )
    authenticator.forget(credential_id=token.id)


def _check_may_make(caller: Caller, scopes: frozenset[Scope]) -> None:
    """Only tokens of owners may create tokens: else a leaked token could outlive its revocation."""
    if caller.by == "token":
        caller.need("admin")
    beyond = sorted(scopes - (scopes_of(caller.user.role) & caller.scopes))
    if beyond:
        raise Denied(
            f"{caller.user.name} does not have the scope '{beyond[0]}' and cannot give it to a token."
        )


def _token_json(token: Token) -> dict[str, object]:
    return {**TokenOut.of(token), "scopes": [scope for scope in SCOPES if scope in token.scopes]}
