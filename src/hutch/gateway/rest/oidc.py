"""Login by an identity provider: the redirect to it, and the callback."""

from typing import TYPE_CHECKING, Annotated, cast

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from hutch.domain.errors import Denied, HutchError, NotFound
from hutch.domain.user import Role, User
from hutch.flows.user_accounts import Actor
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.auth.browser_login import base_url, log_in
from hutch.gateway.auth.caller_dependency import AuthenticatorDep
from hutch.gateway.auth.login_cookie import clear_cookie, read_cookie, set_cookie
from hutch.gateway.auth.optional_oidc_import import LIFE_S, Identity
from hutch.gateway.rest.base_route import PREFIX, router

if TYPE_CHECKING:
    from hutch.gateway.auth.oidc import OidcLogin

routes = router("login")

COOKIE = "hutch-oidc"
CALLBACK = "/login/oidc/callback"
Text = Annotated[str, Query(max_length=4096)]


def _provider_login(request: Request) -> "OidcLogin":
    login = cast("OidcLogin | None", getattr(request.app.state, "oidc", None))
    if login is None:
        raise NotFound("No provider is set up. An owner can set one in oidc.issuer.")
    return login


@routes.get("/login/oidc", status_code=303, response_class=RedirectResponse)
async def begin_oidc(request: Request, authenticator: AuthenticatorDep, next: Text = "/") -> Response:
    """Send the browser to the provider."""
    redirect_uri = f"{base_url(authenticator, request.scope)}{PREFIX}{CALLBACK}"
    url, sealed = await _provider_login(request).begin(redirect_uri, next)
    response = RedirectResponse(url, 303)
    set_cookie(response, request.scope, sealed, base_name=COOKIE, life_s=LIFE_S)
    return response


@routes.get(CALLBACK, status_code=303, response_class=RedirectResponse)
async def finish_oidc(
    request: Request,
    authenticator: AuthenticatorDep,
    state: Text = "",
    code: Text = "",
    error: Text = "",
    iss: Annotated[str | None, Query(max_length=4096)] = None,
) -> Response:
    """Receive the browser back from the provider, and log it in."""
    login, actor = _provider_login(request), authenticator.actor(request.scope)
    sealed = read_cookie(request.scope, COOKIE)
    await authenticator.accounts.attempt(actor)
    try:
        identity, next_path = await login.finish(sealed, state=state, code=code, error=error, iss=iss)
        user = await _user_of(authenticator, actor, identity, login.role)
    except HutchError as refused:
        await authenticator.accounts.note(actor, "login.refused", ok=False, detail=f"oidc: {refused}")
        raise
    await authenticator.accounts.attempt_was_right(actor)
    response = RedirectResponse(next_path, 303)
    clear_cookie(response, request.scope, COOKIE)
    await log_in(authenticator, request, response, user, "oidc")
    return response


async def _user_of(authenticator: Authenticator, actor: Actor, identity: Identity, role: Role) -> User:
    """The user with an identity; created on the first login."""
    users = authenticator.accounts.users
    user = await users.find_by_identity(identity.issuer, identity.subject)
    if user is None:
        user = await users.link_identity(identity.issuer, identity.subject, identity.email, role)
        detail = f"{identity.issuer} {identity.email}"
        await authenticator.accounts.note(actor, "user.identified", user.id, detail=detail)
    if user.disabled:
        raise Denied(f"{user.name} is disabled here.")
    return user
