"""Logging in and out, and what somebody may do about their own account."""

from typing import Annotated, Literal

from fastapi import Request, Response
from pydantic import Field

from hutch.domain.errors import Denied, NotFound, Unauthenticated
from hutch.domain.untrusted_text import echo
from hutch.domain.user import SCOPES, Caller, Scope, User
from hutch.flows.users import LOGIN_LINK_S
from hutch.gateway.auth.caller import AGuard, Reader
from hutch.gateway.auth.cookies import clear_cookie, csrf_token
from hutch.gateway.auth.login import log_in
from hutch.gateway.responses import Cursor, Id, In, Limit, Out, Page, fields_from, page
from hutch.gateway.rest.route import router
from hutch.store.browser_sessions import BrowserSession
from hutch.system.clock import wall_ms

routes = router("login")

CLOCK_LEEWAY_MS = 60_000

Secret = Annotated[str, Field(max_length=200)]
Password = Annotated[str, Field(max_length=1024)]


@fields_from(User, "id name role created_ms disabled")
class UserOut(Out):
    """Somebody with an account here."""


class LoginState(Out):
    """Whether this browser is logged in, and how it could be."""

    methods: list[Literal["password", "oidc"]]
    user: UserOut | None
    csrf: str | None = Field(description="For the header X-CSRF-Token of everything that changes something.")


class LoggedIn(Out):
    """A browser has been logged in."""

    user: UserOut
    csrf: str


class Me(Out):
    """Who the server takes the caller for."""

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
        None, description="The present one; not needed right after a one-time link."
    )


@routes.get("/login")
async def login_state(request: Request, guard: AGuard) -> LoginState:
    """Whether this browser is logged in; with the word that a page must send along."""
    methods: list[Literal["password", "oidc"]] = ["password"]
    if getattr(request.app.state, "oidc", None) is not None:
        methods.append("oidc")
    known = await guard.browser(request.scope)
    return LoginState(
        methods=methods,
        user=user_out(known[0].user) if known else None,
        csrf=csrf_token(known[2]) if known else None,
    )


@routes.post("/login")
async def log_in_by_password(
    given: ByPassword, request: Request, response: Response, guard: AGuard
) -> LoggedIn:
    """Log a browser in; it gets a cookie."""
    user = await guard.accounts.login(given.name, given.password, guard.actor(request.scope))
    csrf = await log_in(guard, request, response, user, "password")
    return LoggedIn(user=user_out(user), csrf=csrf)


@routes.post("/login/link")
async def log_in_by_link(given: ByLink, request: Request, response: Response, guard: AGuard) -> LoggedIn:
    """Spend a one-time link. A POST, since programs that look ahead follow links."""
    user = await guard.accounts.redeem(given.link, guard.actor(request.scope))
    csrf = await log_in(guard, request, response, user, "link")
    return LoggedIn(user=user_out(user), csrf=csrf)


@routes.post("/logout", status_code=204)
async def log_out(given: LogOut, request: Request, response: Response, who: Reader, guard: AGuard) -> None:
    """Log this browser out, or all of them."""
    _by_cookie(who)
    if given.everywhere:
        await guard.accounts.browsers.end_all(who.user.id)
        guard.forget(user_id=who.user.id)
    else:
        await guard.accounts.browsers.end(who.credential_id)
        guard.forget(credential_id=who.credential_id)
    clear_cookie(response, request.scope)
    what = "everywhere" if given.everywhere else ""
    await guard.accounts.note(guard.actor(request.scope, who), "logout", detail=what)


@routes.get("/me")
async def me(who: Reader) -> Me:
    """Who the server takes the caller for."""
    scopes = [scope for scope in SCOPES if scope in who.scopes]
    return Me(user=user_out(who.user), scopes=scopes, by=who.by, credential_id=who.credential_id)


@routes.put("/me/password", status_code=204)
async def set_password(
    given: NewPassword, request: Request, response: Response, who: Reader, guard: AGuard
) -> None:
    """Set one's own password. Every other browser is logged out; this one gets a new cookie."""
    _by_cookie(who)
    actor = guard.actor(request.scope, who)
    found = await guard.accounts.users.find_with_password_hash(who.user.name)
    if found and found[1] and not await _came_by_link(request, guard):
        if given.current is None:
            raise Denied("The present password is needed too.")
        try:
            await guard.accounts.login(who.user.name, given.current, actor)
        except Unauthenticated:
            raise Denied("The present password is wrong.") from None
    await guard.accounts.set_password(who.user.id, given.password, actor)
    guard.forget(user_id=who.user.id)
    await log_in(guard, request, response, who.user, "password")


@routes.get("/me/browsers", response_model=Page[BrowserOut])
async def browsers(
    request: Request, who: Reader, guard: AGuard, cursor: Cursor = "", limit: Limit = 50
) -> Response:
    """The browsers in which one is logged in, the newest first."""
    found = await guard.accounts.browsers.list(who.user.id, before=cursor, limit=limit + 1)
    more = found[limit - 1].id if len(found) > limit else None
    names = [name for name in BrowserOut.model_fields if name != "current"]
    browsers = [{name: getattr(each, name) for name in names} for each in found[:limit]]
    return page(request, [{**each, "current": each["id"] == who.credential_id} for each in browsers], more)


@routes.delete("/me/browsers/{browser_id}", status_code=204)
async def end_browser(browser_id: Id, request: Request, who: Reader, guard: AGuard) -> None:
    """Log one of them out."""
    _by_cookie(who)
    if browser_id not in {each.id for each in await guard.accounts.browsers.list(who.user.id)}:
        raise NotFound(f"There is no browser {echo(browser_id, 80)} of yours.")
    await guard.accounts.browsers.end(browser_id)
    guard.forget(credential_id=browser_id)
    await guard.accounts.note(guard.actor(request.scope, who), "logout", browser_id)


def user_out(user: User) -> UserOut:
    return UserOut.model_validate(user)


def _by_cookie(who: Caller) -> None:
    if who.by != "cookie":
        raise Denied("This is for browsers that are logged in; a token cannot do it.")


async def _came_by_link(request: Request, guard: AGuard) -> bool:
    """Whether this browser was let in by a one-time link a moment ago."""
    known = await guard.browser(request.scope)
    if known is None or known[1].began_by != "link":
        return False
    age_ms = wall_ms() - known[1].created_ms
    return -CLOCK_LEEWAY_MS < age_ms < LOGIN_LINK_S * 1000  # not for longer because the clock was set back
