"""User accounts, logins, links and invites, for both the gateway and the command line.

Every action is written to the audit with the address of its caller.
"""

from collections.abc import Awaitable, Callable, Sequence

from hutch.domain.errors import BadRequest, Denied, TooManyRequests, Unauthenticated
from hutch.domain.ids import parse_session_id
from hutch.domain.rate_limited_address import address_key
from hutch.domain.user import SHARE_SCOPES, Role, Scope, ShareRole, ShareScope, User, name_key, scopes_of
from hutch.flows.password_hashing import Passwords
from hutch.store.audit import Audit
from hutch.store.browser_sessions import BrowserSessions
from hutch.store.login_attempts import LoginAttempts, Meter
from hutch.store.one_time_links import Link, OneTimeLinks
from hutch.store.sessions import Sessions
from hutch.store.shares import Shares
from hutch.store.table_access_interface import Rows
from hutch.store.tokens import Token, Tokens
from hutch.store.users import Users
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

LOGIN_LINK_S = 15 * 60
MAX_INVITE_S = 90 * 24 * 3600
TOKEN_DAYS = 90
MAX_TOKEN_NAME = 100


@dataclass(frozen=True, slots=True)
class OneTimeLink:
    """A link that works once; its `secret` is shown only now."""

    link: Link
    secret: str

    def url(self, base: str) -> str:
        """The link's address. The secret follows the #, which no browser sends or logs."""
        return f"{base.rstrip('/')}/link#{self.secret}"


@dataclass(frozen=True, slots=True)
class Actor:
    """The user, credential and address of an action, for the audit."""

    user_id: str = ""
    credential_id: str = ""
    address: str = ""
    trace_id: str = ""


LOCAL = Actor(credential_id="local", address="local")


class Accounts:
    """The users of an installation and their credentials."""

    def __init__(self, rows: Rows, passwords: Passwords | None = None) -> None:
        self.rows = rows
        self.users = Users(rows)
        self.tokens = Tokens(rows)
        self.browsers = BrowserSessions(rows)
        self.links = OneTimeLinks(rows)
        self.shares = Shares(rows)
        self.audit = Audit(rows)
        self.attempts = LoginAttempts(rows)
        self.passwords = passwords or Passwords()
        self.on_role_changed: Callable[[str], Awaitable[None]] | None = None  # called with the user's id

    async def note(
        self, actor: Actor, action: str, object: str = "", *, ok: bool = True, detail: str = ""
    ) -> None:
        await self.audit.add(
            action,
            user_id=actor.user_id,
            credential_id=actor.credential_id,
            object=object,
            address=actor.address,
            ok=ok,
            detail=detail,
            trace_id=actor.trace_id,
        )

    async def ensure_owner(self, name: str, actor: Actor = LOCAL) -> User:
        """The first owner. In an installation without users, it is created with this name."""
        made = await self.users.add_first_owner(name)
        if made is not None:
            await self.note(actor, "user.added", made.id, detail="the first owner")
            return made
        owner = await self.users.first_owner()
        assert owner is not None  # the last one can be neither disabled nor given another role
        return owner

    async def add_user(self, name: str, role: Role, actor: Actor) -> User:
        user = await self.users.add(name, role)
        await self.note(actor, "user.added", user.id, detail=role)
        return user

    async def set_role(self, user_id: str, role: Role, actor: Actor) -> User:
        user = await self.users.set_role(user_id, role)
        await self.note(actor, "user.role_set", user_id, detail=role)
        if self.on_role_changed is not None:
            await self.on_role_changed(user_id)
        return user

    async def set_disabled(self, user_id: str, disabled: bool, actor: Actor) -> User:
        """Disable or enable a user. A disabled user is logged out, and none of their credentials work."""
        user = await self.users.set_disabled(user_id, disabled)
        if disabled:
            await self.browsers.end_all(user_id)
        await self.note(actor, "user.disabled" if disabled else "user.enabled", user_id)
        return user

    async def set_password(self, user_id: str, password: str, actor: Actor) -> None:
        """Set a password and log the user out everywhere, since others may know the old one."""
        hashed = await self.passwords.hash(password)
        await self.users.set_password(user_id, hashed)
        await self.browsers.end_all(user_id)
        await self.note(actor, "user.password_set", user_id)

    async def login(self, name: str, password: str, actor: Actor) -> User:
        """The user with this name and password. All failures give the same error, and are counted."""
        found = await self.users.find_with_password_hash(name)
        known = await self.browsers.has_address(found[0].id if found else "", actor.address)
        pair, meters = _meters(name, actor.address, known=known)
        await self._count(meters)
        right = await self.passwords.is_right(password, found[1] if found else "")
        if not right or not found or found[0].disabled:
            await self.note(actor, "login.refused", found[0].id if found else "", ok=False)
            raise Unauthenticated("The name or the password is wrong.")
        user, hashed = found
        await self.attempts.record_success([pair], [meter for meter in meters if meter is not pair])
        if self.passwords.is_old(hashed):
            await self.users.set_password(user.id, await self.passwords.hash(password))
        return user

    async def new_link(self, user: User, actor: Actor = LOCAL, *, life_s: int = LOGIN_LINK_S) -> OneTimeLink:
        """A link that logs a user in without a password; any earlier one no longer works."""
        link, secret = await self.links.login(
            user.id, life_ms=life_s * 1000, created_by=actor.user_id or "local"
        )
        await self.note(actor, "link.made", link.id, detail=user.id)
        return OneTimeLink(link, secret)

    async def redeem(self, secret: str, actor: Actor) -> User:
        """The user whom a one-time link logs in. It does not work a second time."""
        await self.attempt(actor)
        try:
            link = await self.links.redeem(secret, "login")
        except Denied:
            await self.note(actor, "login.refused", ok=False, detail="link")
            raise
        await self.attempt_was_right(actor)
        user = await self.users.get(link.user_id or "")
        if user.disabled:
            raise Denied("This link does not work: it was used, it has expired, or it never existed.")
        return user

    async def new_token(
        self, user: User, *, name: str, scopes: frozenset[Scope], days: int | None, actor: Actor
    ) -> tuple[Token, str]:
        """A token for a user, with at most the scopes of the user's role. `days` None: it never expires."""
        if beyond := sorted(scopes - scopes_of(user.role)):
            raise Denied(f"{user.name} is {user.role}, and a token of theirs cannot hold '{beyond[0]}'.")
        if len(name) > MAX_TOKEN_NAME or not name.isprintable():
            raise BadRequest(f"A token's name is one line of at most {MAX_TOKEN_NAME} characters.")
        if user.disabled:
            raise BadRequest(f"{user.name} is disabled, and a token would not work.")
        expires_ms = None if days is None else wall_ms() + days * 24 * 3600 * 1000
        token, secret = await self.tokens.create(user.id, name=name, scopes=scopes, expires_ms=expires_ms)
        await self.note(actor, "token.created", token.id, detail=f"for {user.id}: {','.join(sorted(scopes))}")
        return token, secret

    async def revoke_token(self, token_id: str, actor: Actor, *, user_id: str | None = None) -> Token:
        token = await self.tokens.revoke(token_id, user_id=user_id)
        await self.note(actor, "token.revoked", token.id)
        return token

    async def invite(
        self,
        *,
        role: Role,
        session_id: str | None,
        share_role: ShareRole | None,
        life_s: int,
        actor: Actor,
        more_sessions: Sequence[str] = (),
        share_scopes: Sequence[ShareScope] = (),
        access_s: int | None = None,
    ) -> OneTimeLink:
        """A link that creates a user with this role, and with shares of the sessions that are named.

        The shares are limited to `share_scopes`, and end `access_s` from now.
        """
        if (session_id is None) != (share_role is None):
            raise BadRequest("A session and the role in it go together. Give both, or neither.")
        if session_id is None and (more_sessions or share_scopes or access_s):
            raise BadRequest("Scopes and their end belong to a session. Name one.")
        for each in (session_id, *more_sessions) if session_id else ():
            await Sessions(self.rows).get(parse_session_id(each))
        if share_scopes and share_role not in ("member", "candidate"):
            raise BadRequest(f"Scopes limit work in a session, and {share_role} only views it. Omit them.")
        if role == "owner":
            raise BadRequest("A link cannot create an owner. Invite a member, then change the role.")
        link, secret = await self.links.invite(
            role=role,
            session_id=session_id,
            share_role=share_role,
            life_ms=life_s * 1000,
            created_by=actor.user_id,
            more_sessions=tuple(dict.fromkeys(each for each in more_sessions if each != session_id)),
            share_scopes=tuple(scope for scope in SHARE_SCOPES if scope in share_scopes),
            access_until_ms=None if access_s is None else wall_ms() + access_s * 1000,
        )
        detail = f"{role} {' '.join(link.session_ids)} {share_role or ''} {','.join(share_scopes)}".strip()
        await self.note(actor, "invite.made", link.id, detail=detail)
        return OneTimeLink(link, secret)

    async def accept(self, secret: str, *, name: str, password: str, actor: Actor) -> User:
        """Use an invite: spend the link, create the user and add the share, all or nothing."""
        await self.attempt(actor)
        await self.links.check(secret, "invite")  # before an unauthenticated caller makes us hash
        hashed = await self.passwords.hash(password)
        link, user = await self.links.accept(secret, name=name, password_hash=hashed)
        await self.attempt_was_right(actor)
        await self.note(actor, "invite.accepted", link.id, detail=user.id)
        return user

    async def join(self, secret: str, user: User, actor: Actor) -> Link:
        """Give an existing user the share of an invite."""
        await self.attempt(actor)
        link = await self.links.join(secret, user.id)
        await self.attempt_was_right(actor)
        await self.note(actor, "invite.accepted", link.id, detail=user.id)
        return link

    async def attempt(self, actor: Actor) -> None:
        """Count an attempt to guess a secret. An address that fails too often has to wait."""
        await self._count([_address_meter(actor.address)])

    async def attempt_was_right(self, actor: Actor) -> None:
        await self.attempts.record_success([], [_address_meter(actor.address)])

    async def _count(self, meters: list[Meter]) -> None:
        wait_ms = await self.attempts.begin(meters)
        if wait_ms:
            seconds = -(-wait_ms // 1000)
            raise TooManyRequests(
                f"Too many attempts failed. Try again in {seconds} s.", limit="login", retry_after_s=seconds
            )


async def first_owner(rows: Rows, *, name: str, life_s: int = LOGIN_LINK_S) -> OneTimeLink | None:
    """A login link for the owner at the first start of a server; None later. `hutch run` may have made the
    owner already, without a login."""
    accounts = Accounts(rows)
    owner = await accounts.ensure_owner(name)
    if await accounts.audit.has("link.made") or await accounts.audit.has("user.password_set"):
        return None
    return await accounts.new_link(owner, life_s=life_s)


def _meters(name: str, address: str, *, known: bool) -> tuple[Meter, list[Meter]]:
    """The meters of a login: this name from this address, the address, and the name from any address.

    The last one slows attackers that guess from many addresses. Its waits are short, and addresses known
    for this user do not count on it, so attackers cannot lock a user out for long.
    """
    key = name_key(name)[:256]
    pair = Meter(f"login\0{address_key(address)}\0{key}", free=5, max_wait_s=15 * 60)
    anywhere = Meter(f"name\0{key}", free=100, max_wait_s=30)
    return pair, [pair, _address_meter(address), *(() if known else (anywhere,))]


def _address_meter(address: str) -> Meter:
    return Meter(f"address\0{address_key(address)}", free=20, max_wait_s=15 * 60)
