"""Finds the user behind a token or a cookie.

Results are cached for a few seconds, so most requests do not read the database.
A credential that this server revokes leaves the cache at once. One that another
process revokes is accepted until its cache entry expires, or a stream looks for such changes.
"""

import asyncio
import time
from collections import OrderedDict
from typing import Any

import structlog

from hutch.domain.errors import Denied, TooManyRequests, Unauthenticated
from hutch.domain.random_credentials_and_hashes import TOKEN, hash_of, is_equal
from hutch.domain.user import Caller, scopes_of
from hutch.flows.user_accounts import Accounts, Actor
from hutch.gateway.auth.access_loss_notifier import CHECKED_AT, AccessChanges
from hutch.gateway.auth.candidate_role_access import check_path
from hutch.gateway.auth.cross_origin_refusal_audit import RefusalAudit
from hutch.gateway.auth.host_origin_and_rate_filter import SAFE_METHODS, is_own_origin
from hutch.gateway.auth.login_cookie import CSRF_HEADER, csrf_token, read_cookie
from hutch.gateway.auth.server_names_and_client_address import ServerNames, one, values
from hutch.gateway.auth.token_bucket_rate_limits import RateLimiter, address_key
from hutch.logs import current_trace_id
from hutch.settings.server_sections import Server
from hutch.store.browser_sessions import BrowserSession
from hutch.store.tokens import Token
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

CACHE_S = 3.0
MAX_CACHED = 4096
TOUCH_INTERVAL_S = 60.0
MAX_ORIGIN_CHARS = 80
ANONYMOUS = "You are not logged in. Send the header Authorization: Bearer TOKEN, or log in."

logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class KnownCaller:
    """A caller with the credential that identified them."""

    caller: Caller
    credential: Token | BrowserSession
    until: float


class Authenticator:
    """Identifies callers and limits their request rate."""

    def __init__(
        self,
        accounts: Accounts,
        server: Server,
        *,
        cache_s: float = CACHE_S,
        check_csrf: bool = True,
    ) -> None:
        self.accounts = accounts
        self.names = ServerNames.of(server)
        self.buckets = RateLimiter(server.requests_per_minute)
        self._cache_s = cache_s
        self._check_csrf = check_csrf  # False only in the test that shows the attack
        self._known: OrderedDict[str, KnownCaller] = OrderedDict()
        self._touched: OrderedDict[str, float] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()
        self._forgotten = 0
        self.access_changes = AccessChanges(accounts.audit)
        self.access_changes.listeners.append(self._forget)
        self.refusals = RefusalAudit(self._note_refused)

    async def recognise(self, scope: Any) -> Caller:
        """The caller of a request. Refuses unknown callers, forged requests and too many requests."""
        scope[CHECKED_AT] = self.access_changes.count
        known = await self._recognise_credential(scope)
        self.count(scope, known.caller.credential_id)
        self._touch(known)
        check_path(known.caller, scope)
        return known.caller

    def count(self, scope: Any, credential_id: str) -> None:
        """Count a request against its credential instead of against its address."""
        counted = scope.pop("hutch.counted", "")  # removed: a long-lived connection counts here again
        if counted:
            self.buckets.put_back(counted)
        wait_s = self.buckets.take(credential_id)
        if wait_s:
            raise TooManyRequests(
                f"Too many requests. Try again in {wait_s} s.",
                limit="server.requests_per_minute",
                retry_after_s=wait_s,
            )

    async def recheck(self, scope: Any) -> Caller:
        """The caller of an open connection, as of now. This does not count towards its request limit."""
        known = await self._recognise_credential(scope)
        self._touch(known)
        return known.caller

    def is_known(self, scope: Any) -> bool | None:
        """True if the request's token or cookie is cached; None if the request has none."""
        secret, kind = _credential(scope)
        return f"{kind}{hash_of(secret)}" in self._known if secret else None

    async def _recognise_credential(self, scope: Any) -> KnownCaller:
        secret, kind = _credential(scope)
        known = await self._lookup(secret, kind) if secret else None
        if known is None:
            raise Unauthenticated("This token or login is not valid or has ended." if secret else ANONYMOUS)
        if kind == "cookie":
            try:
                self._require_own_page(scope, secret)
            except Denied as error:
                self.note_refusal(scope, str(error), known.caller)
                raise
        return known

    async def browser(self, scope: Any) -> tuple[Caller, BrowserSession, str] | None:
        """The browser session of a request with its secret, if there is one. Counts as no request."""
        secret = read_cookie(scope)
        known = await self._lookup(secret, "cookie") if secret else None
        if secret is None or known is None or not isinstance(known.credential, BrowserSession):
            return None
        return known.caller, known.credential, secret

    def forget(self, *, user_id: str | None = None, credential_id: str | None = None) -> None:
        """Remove a user or a credential from the cache, and check their open connections."""
        self.access_changes.notify(user_id=user_id, credential_id=credential_id)

    def note_access_change(self, user_id: str) -> None:
        """Check the open connections of a user, who may have other rights now."""
        self.access_changes.notify(user_id=user_id)

    def _forget(self, user_id: str | None, credential_id: str | None) -> None:
        self._forgotten += 1
        everyone = user_id is None and credential_id is None
        for key, known in list(self._known.items()):
            if everyone or known.caller.user.id == user_id or known.caller.credential_id == credential_id:
                del self._known[key]

    def actor(self, scope: Any, caller: Caller | None = None) -> Actor:
        """The actor of a request, for the audit."""
        return Actor(
            user_id=caller.user.id if caller else "",
            credential_id=caller.credential_id if caller else "",
            address=client_of(scope),
            trace_id=current_trace_id(),
        )

    def note_refusal(self, scope: Any, why: str, caller: Caller | None = None) -> None:
        """Record in the audit a request that a page of another site may have sent."""
        origin = ", ".join(values(scope["headers"], b"origin"))
        detail = f"from {origin[:MAX_ORIGIN_CHARS]}: {why}" if origin else why
        key = address_key(client_of(scope))
        self.refusals.add(key, self.actor(scope, caller), scope["path"], detail)

    async def _note_refused(self, actor: Actor, action: str, path: str, why: str) -> None:
        await self.accounts.note(actor, action, path, ok=False, detail=why)

    async def close(self) -> None:
        """Wait for all pending writes."""
        await self.refusals.close()
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _lookup(self, secret: str, kind: str) -> KnownCaller | None:
        key, now = f"{kind}{hash_of(secret)}", time.monotonic()
        known = self._known.get(key)
        if known is None or known.until <= now:
            before = self._forgotten
            known = await self._read(secret, kind)
            self._known.pop(key, None)
            if known is not None and before == self._forgotten:
                self._known[key] = known
                while len(self._known) > MAX_CACHED:
                    self._known.popitem(last=False)
        if known is None or not known.credential.is_valid(wall_ms()):
            return None
        return known

    async def _read(self, secret: str, kind: str) -> KnownCaller | None:
        credential: Token | BrowserSession
        if kind == "token":
            token = await self.accounts.tokens.recognise(secret)
            if token is None:
                return None
            (credential, user), scopes = token, token[0].scopes & scopes_of(token[1].role)
        else:
            browser = await self.accounts.browsers.recognise(secret)
            if browser is None:
                return None
            (credential, user), scopes = browser, scopes_of(browser[1].role)
        if user.disabled:
            return None
        caller = Caller(user, scopes, "token" if kind == "token" else "cookie", credential.id)
        return KnownCaller(caller, credential, time.monotonic() + self._cache_s)

    def _require_own_page(self, scope: Any, secret: str) -> None:
        """Refuse a request that another site's page may have sent with the browser's cookie."""
        if not self._check_csrf:
            return
        if scope["type"] == "websocket":
            if is_own_origin(self.names, scope) is not True:
                raise Denied("A WebSocket with a cookie must be opened by a page of this server.")
        elif scope["method"] not in SAFE_METHODS:
            token = one(scope["headers"], CSRF_HEADER.lower().encode())
            if is_own_origin(self.names, scope) is not True:
                raise Denied("This request has a cookie but was not sent by a page of this server.")
            if token is None or not is_equal(token, csrf_token(secret)):
                raise Denied(f"The header {CSRF_HEADER} is missing or wrong. GET /api/v1/login returns it.")

    def _touch(self, known: KnownCaller) -> None:
        """Record at most once a minute that a credential was used, in the background."""
        credential, now = known.caller.credential_id, time.monotonic()
        if now - self._touched.get(credential, -TOUCH_INTERVAL_S) < TOUCH_INTERVAL_S:
            return
        self._touched[credential] = now
        self._touched.move_to_end(credential)
        while len(self._touched) > MAX_CACHED:
            self._touched.popitem(last=False)
        task = asyncio.get_running_loop().create_task(self._write_touch(known))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _write_touch(self, known: KnownCaller) -> None:
        now_ms = wall_ms()
        try:
            if isinstance(known.credential, Token):
                await self.accounts.tokens.touch(known.credential.id, now_ms)
            else:
                await self.accounts.browsers.touch(known.credential.id, now_ms)
        except Exception as error:  # noqa: BLE001  the request itself was served
            logger.warning("credential.not_touched", problem=str(error))


def client_of(scope: Any) -> str:
    """The address of the caller, as the request filter determined it."""
    client = scope.get("client")
    return str(client[0]) if client else ""


def _credential(scope: Any) -> tuple[str, str]:
    """The credential of a request and its kind. A token takes precedence over a cookie."""
    credential = values(scope["headers"], b"authorization")
    return (_bearer(credential), "token") if credential else (read_cookie(scope) or "", "cookie")


def _bearer(credential: list[str]) -> str:
    """The token in the header, or `-`, which is no valid token."""
    scheme, _, value = credential[0].partition(" ") if len(credential) == 1 else ("", "", "")
    value = value.strip()
    return value if scheme.lower() == "bearer" and value.startswith(TOKEN) and len(value) < 200 else "-"
