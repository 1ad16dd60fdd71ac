"""Previews: pages that programs in a jail serve, for callers who may see the session.

Such pages are untrusted, so they never share the origin of this server. Each port of each
session has its own host name below `server.preview_domain`. A logged-in browser is
redirected there with a preview token that is valid for that name only. Programs with an
API token get the response here, without headers that could make it a page of ours.
"""

import re
from collections import OrderedDict
from dataclasses import field, replace
from time import monotonic
from typing import Any
from urllib.parse import parse_qs, quote

from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from hutch.domain.errors import BadRequest, Denied, HutchError, Unauthenticated
from hutch.domain.one_line_text import echo
from hutch.domain.session import Session
from hutch.domain.user import Caller, scopes_of
from hutch.flows.sessions import allowed
from hutch.gateway.auth.access_loss_notifier import CHECKED_AT
from hutch.gateway.auth.authenticator import CACHE_S, Authenticator, client_of
from hutch.gateway.auth.server_names_and_client_address import values
from hutch.gateway.gateway_context import Server
from hutch.gateway.problem_json import error_response
from hutch.gateway.stream.open_streams import Streams
from hutch.gateway.stream.preview_forwarding import Target, answer, serve
from hutch.gateway.stream.preview_headers import COOKIE, cookie_of
from hutch.gateway.stream.preview_tokens import STAY_S, PreviewToken, PreviewTokens
from hutch.gateway.stream.stream_permission import grant_stream
from hutch.gateway.stream.stream_quota import StreamQuota
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

ENTER = "/.hutch/enter"
LABEL = re.compile(r"([0-7][0-9abcdefghjkmnpqrstvwxyz]{25})-(\d{1,5})")
MAX_CACHED_CALLERS = 1024
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True, slots=True)
class PreviewGrant:
    """A grant by a preview token; see `StreamGrant`."""

    previews: "Previews"
    scope: Any
    token: PreviewToken
    session: Session
    server: Server
    writes: bool = False

    async def renew(self, session: Session | None = None) -> "PreviewGrant":
        return replace(self, session=await self.previews.check(self.token))

    def is_of(self, user_id: str | None, credential_id: str | None) -> bool:
        return self.token.user_id == user_id or self.token.credential_id == credential_id


@dataclass(slots=True)
class Previews:
    """The previews of a server."""

    server: Server
    authenticator: Authenticator
    streams: Streams
    stream_quota: StreamQuota
    tokens: PreviewTokens = field(default_factory=PreviewTokens)
    _known: OrderedDict[tuple[str, str], tuple[Caller, float]] = field(default_factory=OrderedDict)

    def access_changed(self, user_id: str | None, credential_id: str | None) -> None:
        """Read callers again."""
        self._known.clear()

    # --- under the server's own name ---

    async def by_path(self, scope: Scope, receive: Receive, send: Send) -> None:
        """`/preview/{session}/{port}/…`: redirect a browser; answer a program."""
        try:
            found = await grant_stream(scope, scope["path_params"]["session_id"])
            await allowed(self.server.services, found.caller, found.session, scope="previews")
            port = _port(scope["path_params"]["port"])
            path, prefix = _with_query(_rest(scope), scope), f"/preview/{found.session.id}/{port}"
            origin, client = str(scope.get("hutch.origin")), client_of(scope)
            target = Target(found.session, port, path, origin, client, prefix, token=True)
            if not found.writes and not _is_read_only(scope):
                raise Denied("You can view this session but not change it. Its previews are read-only.")
            if found.caller.by != "token":
                if scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD"):
                    raise Denied("Open the preview in a browser first: it has its own host name.")
                caller = found.caller
                entered = self.tokens.enter(
                    found.session.id, port, caller.user.id, caller.by, caller.credential_id
                )
                await self._redirect(scope, receive, send, target, entered)
                return
        except HutchError as error:
            await answer(scope, receive, send, error_response(error, self.server.redactor))
            return
        async with self.streams.open(found, send) as stream:
            await serve(self.server, stream, scope, receive, target)

    async def _redirect(
        self, scope: Scope, receive: Receive, send: Send, target: Target, entered: str
    ) -> None:
        scheme, _, host = target.own_origin.partition("://")
        _, _, port = host.rpartition(":") if re.search(r":\d+$", host) else ("", "", "")
        name = f"{target.session.id.removeprefix('ses_')}-{target.port}.{self.domain}"
        there = f"{scheme}://{name}{f':{port}' if port else ''}{ENTER}"
        response = Response(status_code=303)
        response.headers["location"] = f"{there}?token={entered}&to={quote(target.path, safe='')}"
        response.headers["cache-control"] = "no-store"
        response.headers["referrer-policy"] = "no-referrer"
        await response(scope, receive, send)

    # --- under a name of its own ---

    @property
    def domain(self) -> str:
        return self.server.loaded.settings.server.preview_domain

    def named(self, scope: Scope) -> tuple[str, int] | None:
        """The session and port that the Host of a request names."""
        hosts = values(scope["headers"], b"host")
        if len(hosts) != 1:
            return None
        name = re.sub(r":\d{1,5}$", "", hosts[0].lower())
        label, dot, domain = name.partition(".")
        found = LABEL.fullmatch(label)
        if not found or not dot or domain != self.domain or not 0 < int(found[2]) < 65536:
            return None
        return f"ses_{found[1]}", int(found[2])

    def is_named(self, scope: Scope) -> bool:
        return self.named(scope) is not None

    async def by_name(self, scope: Scope, receive: Receive, send: Send, session_id: str, port: int) -> None:
        """Answer a request to a preview's own name. The request filter has counted it."""
        origin = str(scope["hutch.origin"])
        scope[CHECKED_AT] = self.authenticator.access_changes.count
        try:
            if scope["path"] == ENTER:
                await self._enter(scope, receive, send, session_id, port, origin)
                return
            token = self.tokens.read(cookie_of(scope["headers"]) or "", "stay", session_id, port)
            if token is None:
                raise Unauthenticated("Open this preview from its session in Hutch first.")
            caller = await self._caller_of(token)
            self.authenticator.count(scope, f"preview {caller.credential_id}")
            session = await allowed(self.server.services, caller, session_id, scope="previews")
            _check_origin(scope, origin)
            if not _is_read_only(scope):
                await allowed(self.server.services, caller, session_id, "input")
            self.stream_quota.acquire(scope, caller)
        except HutchError as error:
            await answer(scope, receive, send, error_response(error, self.server.redactor))
            return
        path = _with_query(scope["raw_path"].decode("latin-1"), scope)
        target = Target(session, port, path, origin, client_of(scope))
        grant = PreviewGrant(self, scope, token, session, self.server)
        async with self.streams.open(grant, send) as stream:
            await serve(self.server, stream, scope, receive, target)

    async def _enter(
        self, scope: Scope, receive: Receive, send: Send, session_id: str, port: int, origin: str
    ) -> None:
        query = parse_qs(scope["query_string"].decode("latin-1"))
        entered = self.tokens.read(query.get("token", [""])[0], "enter", session_id, port)
        if scope["type"] != "http" or entered is None or not self.tokens.spend(entered):
            raise Unauthenticated("This link was used or has expired. Open the preview again.")
        await self.check(entered)
        to = query.get("to", ["/"])[0]
        response = Response(status_code=303)
        response.headers["location"] = origin + (to if to.startswith("/") else "/")
        response.headers["cache-control"] = "no-store"
        response.headers["referrer-policy"] = "no-referrer"
        safe = origin.startswith("https:") or self.domain == "localhost"
        # In a frame of our page the preview is third-party: a partitioned cookie is valid in that frame only.
        kind = "Secure; SameSite=None; Partitioned" if safe else "SameSite=Lax"
        cookie = f"{COOKIE}={self.tokens.stay(entered)}; Path=/; HttpOnly; Max-Age={STAY_S}; {kind}"
        response.headers["set-cookie"] = cookie
        await response(scope, receive, send)

    async def check(self, token: PreviewToken) -> Session:
        """The session, if the owner of the token may still see it."""
        caller = await self._caller_of(token)
        return await allowed(self.server.services, caller, token.session_id, scope="previews")

    async def _caller_of(self, token: PreviewToken) -> Caller:
        key = (token.by, token.credential_id)
        known = self._known.get(key)
        if known is not None and known[1] > monotonic():
            return known[0]
        accounts = self.authenticator.accounts
        user = await accounts.users.get(token.user_id)
        scopes = scopes_of(user.role)
        if token.by == "token":
            tokens = [each for each in await accounts.tokens.list(user.id) if each.id == token.credential_id]
            good = bool(tokens) and tokens[0].is_valid(wall_ms())
            scopes &= tokens[0].scopes if tokens else frozenset()
        else:
            good = any(each.id == token.credential_id for each in await accounts.browsers.list(user.id))
        if user.disabled or not good:
            self._known.pop(key, None)
            raise Unauthenticated("The user who opened this preview is logged out.")
        caller = Caller(user, scopes, token.by, token.credential_id)
        self._known[key] = (caller, monotonic() + CACHE_S)
        while len(self._known) > MAX_CACHED_CALLERS:
            self._known.popitem(last=False)
        return caller


class PreviewPath:
    """The route under our own name, as plain ASGI."""

    def __init__(self, previews: Previews) -> None:
        self._previews = previews

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._previews.by_path(scope, receive, send)


class PreviewNames:
    """Middleware behind the request filter: requests to a preview's name reach nothing else of ours."""

    def __init__(self, app: ASGIApp, *, previews: Previews) -> None:
        self._app, self._previews = app, previews

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        named = self._previews.named(scope) if scope["type"] in ("http", "websocket") else None
        if named is None:
            await self._app(scope, receive, send)
        else:
            await self._previews.by_name(scope, receive, send, *named)


def _is_read_only(scope: Scope) -> bool:
    """True if a request only reads; all others act in the jail."""
    return scope["type"] == "http" and scope["method"] in SAFE


def _check_origin(scope: Scope, own: str) -> None:
    """Refuse changes that another page sends, whatever cookie they have."""
    if _is_read_only(scope):
        return
    origins = values(scope["headers"], b"origin")
    if origins and [each.lower() for each in origins] != [own]:
        raise Denied("This request was sent by another page.")


def _rest(scope: Scope) -> str:
    """The path after the port."""
    parts = scope["raw_path"].decode("latin-1").split("/", 4)
    return f"/{parts[4]}" if len(parts) > 4 else "/"


def _with_query(path: str, scope: Scope) -> str:
    query = scope["query_string"].decode("latin-1")
    return f"{path}?{query}" if query else path


def _port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or not 0 < int(text) < 65536:
        raise BadRequest(f"{echo(text, 40)} is not a port. Ports are 1 to 65535.")
    return int(text)
