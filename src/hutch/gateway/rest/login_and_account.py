"""Login, logout, and a user's own account."""

from typing import Annotated, Literal

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import Denied, NotFound, Unauthenticated
from hutch.domain.one_line_text import echo
from hutch.domain.user import SCOPES, Caller, Scope, User
from hutch.flows.user_accounts import LOGIN_LINK_S
from hutch.gateway.auth.browser_login import log_in
from hutch.gateway.auth.caller_dependency import AuthenticatorDep, Reader
from hutch.gateway.auth.login_cookie import clear_cookie, csrf_token
from hutch.gateway.request_and_response_bodies import Cursor, Id, In, Limit, Out, Page, fields_from, page
from hutch.gateway.rest.base_route import router
from hutch.store.browser_sessions import BrowserSession
from hutch.system.clock_without_jumps import wall_ms

routes = router("login")

CLOCK_LEEWAY_MS = 60_000

Secret = Annotated[str, Field(max_length=200)]
Password = Annotated[str, Field(max_length=1024)]


@fields_from(User, "id name role created_ms disabled")
class UserOut(Out):
    """A user account."""


class LoginState(Out):
    """The login state of this browser, and the available login methods."""

    methods: list[Literal["password", "oidc"]]
    user: UserOut | None
    csrf: str | None = Field(description="For the header X-CSRF-Token of requests that change something.")


class LoggedIn(Out):
    """A browser has been logged in."""

    user: UserOut
    csrf: str


class Me(Out):
    """The authenticated caller."""

    user: UserOut
    scopes: list[Scope]
    by: Literal["token", "cookie", "local"]
    credential_id: str


@fields_from(BrowserSession, "id began_by address agent created_ms used_ms")
class BrowserOut(Out):
    """A browser in which the caller is logged in."""

    current: bool


class ByPassword(In):
    name: str = Field(max_length=200)
    password: Password


class ByLink(In):
    link: Secret


class LogOut(In):
    everywhere: bool = False


class NewPassword(In):
    password: Password
    current: Password | None = Field(
        None, description="The current password; not needed right after a one-time link."
    )


@routes.get("/login")
async def login_state(request: Request, authenticator: AuthenticatorDep) -> LoginState:
    """The login state of this browser, with the CSRF token that a page must send."""
    methods: list[Literal["password", "oidc"]] = ["password"]
    if getattr(request.app.state, "oidc", None) is not None:
        methods.append("oidc")
    browser = await authenticator.browser(request.scope)
    return LoginState(
        methods=methods,
        user=user_out(browser[0].user) if browser else None,
        csrf=csrf_token(browser[2]) if browser else None,
    )


@routes.post("/login")
async def log_in_by_password(
    body: ByPassword, request: Request, response: Response, authenticator: AuthenticatorDep
) -> LoggedIn:
    """Log a browser in with a password. The response sets a cookie."""
    user = await authenticator.accounts.login(body.name, body.password, authenticator.actor(request.scope))
    csrf = await log_in(authenticator, request, response, user, "password")
    return LoggedIn(user=user_out(user), csrf=csrf)


@routes.post("/login/link")
async def log_in_by_link(
    body: ByLink, request: Request, response: Response, authenticator: AuthenticatorDep
) -> LoggedIn:
    """Log in with a one-time link. A POST, because programs prefetch links."""
    user = await authenticator.accounts.redeem(body.link, authenticator.actor(request.scope))
    csrf = await log_in(authenticator, request, response, user, "link")
    return LoggedIn(user=user_out(user), csrf=csrf)


@routes.post("/logout", status_code=204)
async def log_out(
    body: LogOut, request: Request, response: Response, caller: Reader, authenticator: AuthenticatorDep
) -> None:
    """Log this browser out, or all of the user's."""
    _require_cookie(caller)
    if body.everywhere:
        await authenticator.accounts.browsers.end_all(caller.user.id)
        authenticator.forget(user_id=caller.user.id)
    else:
        await authenticator.accounts.browsers.end(caller.credential_id)
        authenticator.forget(credential_id=caller.credential_id)
    clear_cookie(response, request.scope)
    detail = "everywhere" if body.everywhere else ""
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "logout", detail=detail)


@routes.get("/me")
async def me(caller: Reader) -> Me:
    """The authenticated caller."""
    scopes = [scope for scope in SCOPES if scope in caller.scopes]
    return Me(user=user_out(caller.user), scopes=scopes, by=caller.by, credential_id=caller.credential_id)


@routes.put("/me/password", status_code=204)
async def set_password(
    body: NewPassword, request: Request, response: Response, caller: Reader, authenticator: AuthenticatorDep
) -> None:
    """Set your own password. All your other browsers are logged out; this one gets a new cookie."""
    _require_cookie(caller)
    actor = authenticator.actor(request.scope, caller)
    found = await authenticator.accounts.users.find_with_password_hash(caller.user.name)
    if found and found[1] and not await _is_fresh_link_login(request, authenticator):
        if body.current is None:
            raise Denied("The current password is missing.")
        try:
            await authenticator.accounts.login(caller.user.name, body.current, actor)
        except Unauthenticated:
            raise Denied("The current password is wrong.") from None
    await authenticator.accounts.set_password(caller.user.id, body.password, actor)
    authenticator.forget(user_id=caller.user.id)
    await log_in(authenticator, request, response, caller.user, "password")


@routes.get("/me/browsers", response_model=Page[BrowserOut])
async def browsers(
    request: Request, caller: Reader, authenticator: AuthenticatorDep, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The browsers in which you are logged in, the newest first."""
    found = await authenticator.accounts.browsers.list(caller.user.id, before=cursor, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    names = [name for name in BrowserOut.model_fields if name != "current"]
    browsers = [{name: getattr(each, name) for name in names} for each in found[:limit]]
    return page(request, [{**each, "current": each["id"] == caller.credential_id} for each in browsers], more)


@routes.delete("/me/browsers/{browser_id}", status_code=204)
async def end_browser(
    browser_id: Id, request: Request, caller: Reader, authenticator: AuthenticatorDep
) -> None:
    """Log one of your browsers out."""
    _require_cookie(caller)
    if browser_id not in {each.id for each in await authenticator.accounts.browsers.list(caller.user.id)}:
        raise NotFound(f"You have no browser {echo(browser_id, 80)}.")
    await authenticator.accounts.browsers.end(browser_id)
    authenticator.forget(credential_id=browser_id)
    await authenticator.accounts.note(authenticator.actor(request.scope, caller), "logout", browser_id)


def user_out(user: User) -> UserOut:
    return UserOut.model_validate(user)


def _require_cookie(caller: Caller) -> None:
    if caller.by != "cookie":
        raise Denied("This needs a browser that is logged in; a token is not enough.")


async def _is_fresh_link_login(request: Request, authenticator: AuthenticatorDep) -> bool:
    """True if this browser was logged in by a one-time link a moment ago."""
    browser = await authenticator.browser(request.scope)
    if browser is None or browser[1].began_by != "link":
        return False
    age_ms = wall_ms() - browser[1].created_ms
    return (
        -CLOCK_LEEWAY_MS < age_ms < LOGIN_LINK_S * 1000
    )  # the lower bound: setting the clock back must not extend it
