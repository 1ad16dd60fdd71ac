"""Logs a browser in: each login sets a new cookie and ends the session of the old one."""

from typing import Any

from fastapi import Response
from starlette.requests import HTTPConnection

from hutch.domain.user import User
from hutch.gateway.auth.authenticator import Authenticator
from hutch.gateway.auth.login_cookie import csrf_token, read_cookie, set_cookie
from hutch.gateway.auth.server_names_and_client_address import one
from hutch.store.browser_sessions import LoginMethod


async def log_in(
    authenticator: Authenticator,
    connection: HTTPConnection,
    response: Response,
    user: User,
    began_by: LoginMethod,
) -> str:
    """Set the cookie and return the CSRF token for it."""
    scope = connection.scope
    before = await authenticator.browser(scope)
    actor = authenticator.actor(scope)
    browser, secret = await authenticator.accounts.browsers.begin(
        user.id,
        began_by=began_by,
        address=actor.address,
        agent=one(scope["headers"], b"user-agent") or "",
        instead_of=read_cookie(scope),
    )
    if before is not None:
        authenticator.forget(credential_id=before[1].id)
    set_cookie(response, scope, secret)
    await authenticator.accounts.audit.add(
        "login",
        user_id=user.id,
        credential_id=browser.id,
        address=actor.address,
        detail=began_by,
        trace_id=actor.trace_id,
    )
    return csrf_token(secret)


def base_url(authenticator: Authenticator, scope: Any) -> str:
    """The URL at which the caller reaches this server."""
    return authenticator.names.public or scope.get("hutch.origin") or ""
