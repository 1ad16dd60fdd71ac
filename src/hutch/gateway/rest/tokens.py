"""API tokens, over the API. One is told once, when it is made."""

from typing import Annotated

from fastapi import Query, Request, Response
from pydantic import Field

from hutch.domain.errors import Denied
from hutch.domain.user import SCOPES, Caller, Scope, scopes_of, with_implied
from hutch.flows.users import MAX_TOKEN_NAME, TOKEN_DAYS
from hutch.gateway.auth.caller import AGuard, Reader
from hutch.gateway.responses import Cursor, Id, In, Limit, Out, Page, fields_from, paged
from hutch.gateway.rest.route import router
from hutch.store.tokens import Token

routes = router("tokens")


@fields_from(Token, "id user_id name prefix scopes created_ms expires_ms last_used_ms revoked_ms")
class TokenOut(Out):
    """What is known of a token; it cannot be used with that."""

    scopes: list[Scope]


class CreatedToken(TokenOut):
    """A new token; `token` is not told again."""

    token: str


class NewToken(In):
    name: str = Field("", max_length=MAX_TOKEN_NAME)
    scopes: list[Scope] = Field(["read"], min_length=1, max_length=len(SCOPES))
    days: int | None = Field(TOKEN_DAYS, ge=1, le=36_500, description="Null lasts for ever.")


@routes.get("/tokens", response_model=Page[TokenOut])
async def list_tokens(
    request: Request,
    who: Reader,
    guard: AGuard,
    everyone: Annotated[bool, Query(description="Those of all users; for owners.")] = False,
    cursor: Cursor = "",
    limit: Limit = 50,
) -> Response:
    """The caller's tokens, the newest first."""
    if everyone:
        who.need("admin")
    whose = None if everyone else who.user.id
    found = await guard.accounts.tokens.list(whose, before=cursor, limit=limit + 1)
    return paged(request, [TokenOut.model_validate(_told(token)) for token in found], limit)


@routes.post("/tokens", status_code=201)
async def create_token(given: NewToken, request: Request, who: Reader, guard: AGuard) -> CreatedToken:
    """Make a token for oneself, with no more than one holds. Answered once: no Idempotency-Key is kept."""
    scopes = with_implied(frozenset(given.scopes))
    _check_may_make(who, scopes)
    token, secret = await guard.accounts.new_token(
        who.user, name=given.name, scopes=scopes, days=given.days, actor=guard.actor(request.scope, who)
    )
    return CreatedToken.model_validate({**_told(token), "token": secret})


@routes.delete("/tokens/{token_id}", status_code=204)
async def revoke_token(token_id: Id, request: Request, who: Reader, guard: AGuard) -> None:
    """End a token: one of one's own, any as an owner. A token may end itself."""
    if token_id != who.credential_id and who.by == "token":
        who.need("admin")
    token = await guard.accounts.revoke_token(
        token_id, guard.actor(request.scope, who), user_id=None if who.is_owner else who.user.id
    )
    guard.forget(credential_id=token.id)


def _check_may_make(who: Caller, scopes: frozenset[Scope]) -> None:
    """A token makes others only as an owner's: else one that leaks would outlive its end."""
    if who.by == "token":
        who.need("admin")
    beyond = sorted(scopes - (scopes_of(who.user.role) & who.scopes))
    if beyond:
        raise Denied(f"{who.user.name} does not hold the scope '{beyond[0]}', and cannot give it to a token.")


def _told(token: Token) -> dict[str, object]:
    return {**TokenOut.of(token), "scopes": [scope for scope in SCOPES if scope in token.scopes]}
