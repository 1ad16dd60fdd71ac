"""Browser sessions, as rows: the user, the address and the time of a login."""

from typing import Any, Literal

from sqlalchemy import bindparam, delete, insert, select, update

from hutch.domain.ids import BrowserId, UserId, new_browser_id
from hutch.domain.random_credentials_and_hashes import hash_of, new_secret
from hutch.domain.user import User
from hutch.store.schema import browser_sessions, users
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import STEADY, SteadyClock, wall_ms
from hutch.system.lazy_dataclass import dataclass

IDLE_MS = 7 * 24 * 3600 * 1000
ABSOLUTE_MS = 30 * 24 * 3600 * 1000
MAX_AGENT_CHARS = 200

LoginMethod = Literal["password", "link", "oidc"]


@dataclass(frozen=True, slots=True)
class BrowserSession:
    """A logged-in browser."""

    id: BrowserId
    user_id: UserId
    began_by: LoginMethod
    address: str
    agent: str
    created_ms: int
    used_ms: int

    def is_valid(self, now_ms: int) -> bool:
        return now_ms < min(self.used_ms + IDLE_MS, self.created_ms + ABSOLUTE_MS)


_COLUMNS = tuple(browser_sessions.c[name] for name in BrowserSession.__dataclass_fields__)
_FIND = (  # built once: requests of browsers use it
    select(*_COLUMNS, users.c.name, users.c.role, users.c.created_ms, users.c.disabled)
    .join(users, users.c.id == browser_sessions.c.user_id)
    .where(browser_sessions.c.hash == bindparam("secret_hash"))
)


class BrowserSessions:
    """Starts, finds and ends browser sessions."""

    def __init__(self, rows: Rows, clock: SteadyClock = STEADY) -> None:
        self._rows = rows
        self._clock = clock

    async def begin(
        self, user_id: str, *, began_by: LoginMethod, address: str, agent: str, instead_of: str | None = None
    ) -> tuple[BrowserSession, str]:
        """Start a session; returns it with the secret for its cookie. The browser's previous session ends."""
        secret, now_ms = new_secret(), wall_ms()
        browser = BrowserSession(
            new_browser_id(), UserId(user_id), began_by, address, agent[:MAX_AGENT_CHARS], now_ms, now_ms
        )
        values = {name: getattr(browser, name) for name in BrowserSession.__dataclass_fields__}

        def change(db: Any) -> None:
            steady_ms = self._clock.now_ms()
            db.execute(
                delete(browser_sessions).where(browser_sessions.c.created_ms < steady_ms - ABSOLUTE_MS)
            )
            db.execute(delete(browser_sessions).where(browser_sessions.c.used_ms < steady_ms - IDLE_MS))
            if instead_of is not None:
                db.execute(delete(browser_sessions).where(browser_sessions.c.hash == hash_of(instead_of)))
            db.execute(insert(browser_sessions).values(hash=hash_of(secret), **values))

        await self._rows.change(change)
        return browser, secret

    async def recognise(self, secret: str) -> tuple[BrowserSession, User] | None:
        named = {"secret_hash": hash_of(secret)}
        row = await self._rows.fetch(lambda db: db.execute(_FIND, named).first())
        if row is None:
            return None
        browser = BrowserSession(*row[:-4])
        return browser, User(browser.user_id, row[-4], row[-3], row[-2], bool(row[-1]))

    async def list(
        self, user_id: str, *, before: str = "", limit: int | None = None
    ) -> "list[BrowserSession]":
        """The valid sessions, newest first."""
        now_ms = wall_ms()
        statement = (
            select(*_COLUMNS)
            .where(
                browser_sessions.c.user_id == user_id,
                browser_sessions.c.created_ms > now_ms - ABSOLUTE_MS,
                browser_sessions.c.used_ms > now_ms - IDLE_MS,
            )
            .order_by(browser_sessions.c.id.desc())
            .limit(limit)
        )
        if before:
            statement = statement.where(browser_sessions.c.id < before)
        return await self._rows.fetch(lambda db: [BrowserSession(*row) for row in db.execute(statement)])

    async def has_address(self, user_id: str, address: str) -> bool:
        """True if this user is logged in from that address."""
        statement = select(browser_sessions.c.id).where(
            browser_sessions.c.user_id == user_id, browser_sessions.c.address == address
        )
        return await self._rows.fetch(lambda db: db.execute(statement).first() is not None)

    async def end(self, browser_id: str) -> None:
        statement = delete(browser_sessions).where(browser_sessions.c.id == browser_id)
        await self._rows.change(lambda db: db.execute(statement).rowcount)

    async def end_all(self, user_id: str) -> None:
        """Log a user out everywhere."""
        statement = delete(browser_sessions).where(browser_sessions.c.user_id == user_id)
        await self._rows.change(lambda db: db.execute(statement).rowcount)

    async def touch(self, browser_id: str, now_ms: int) -> None:
        statement = update(browser_sessions).where(browser_sessions.c.id == browser_id).values(used_ms=now_ms)
        await self._rows.change(lambda db: db.execute(statement).rowcount)
