"""One-time links, as rows: one logs a user in, or invites somebody. Each works once, and not for long."""

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select, update

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.ids import LinkId, UserId, new_link_id
from hutch.domain.secret import INVITE, LINK, hash_of, new_secret
from hutch.domain.untrusted_text import echo
from hutch.domain.user import Role, ShareRole, User
from hutch.store.rows import Rows
from hutch.store.schema import links
from hutch.store.shares import set_share
from hutch.store.users import add_user
from hutch.system.clock import STEADY, SteadyClock, wall_ms

RETENTION_MS = 30 * 24 * 3600 * 1000  # after they are over


@dataclass(frozen=True, slots=True)
class Link:
    """What a link is for; not the link itself."""

    id: LinkId
    kind: Literal["login", "invite"]
    user_id: UserId | None
    role: Role | None
    session_id: str | None
    share_role: ShareRole | None
    created_by: str
    created_ms: int
    expires_ms: int
    used_ms: int | None = None
    used_by: str | None = None


_COLUMNS = tuple(links.c[name] for name in Link.__dataclass_fields__)


class OneTimeLinks:
    """Links: made, spent, withdrawn."""

    def __init__(self, rows: Rows, clock: SteadyClock = STEADY) -> None:
        self._rows = rows
        self._clock = clock

    async def login(self, user_id: str, *, life_ms: int, created_by: str) -> tuple[Link, str]:
        """A link that logs this user in. Any that the user had before no longer works."""
        earlier = delete(links).where(links.c.user_id == user_id, links.c.used_ms.is_(None))
        now_ms = wall_ms()
        link = Link(
            new_link_id(), "login", UserId(user_id), None, None, None, created_by, now_ms, now_ms + life_ms
        )
        return await self._add(link, LINK, earlier)

    async def invite(
        self,
        *,
        role: Role,
        session_id: str | None,
        share_role: ShareRole | None,
        life_ms: int,
        created_by: str,
    ) -> tuple[Link, str]:
        now_ms = wall_ms()
        link = Link(
            new_link_id(),
            "invite",
            None,
            role,
            session_id,
            share_role,
            created_by,
            now_ms,
            now_ms + life_ms,
        )
        return await self._add(link, INVITE)

    async def invites(self, *, before: str = "", limit: int | None = None) -> list[Link]:
        """Those that still work, the newest first."""
        wanted = (
            select(*_COLUMNS)
            .where(links.c.kind == "invite", links.c.used_ms.is_(None), links.c.expires_ms > wall_ms())
            .order_by(links.c.id.desc())
            .limit(limit)
        )
        if before:
            wanted = wanted.where(links.c.id < before)
        return await self._rows.fetch(lambda db: [Link(*row) for row in db.execute(wanted)])

    async def redeem(self, secret: str, kind: Literal["login", "invite"]) -> Link:
        """Use a link: of many who try at once, one is let through."""
        return await self._rows.change(lambda db: _spend(db, secret, kind))

    async def accept(self, secret: str, *, name: str, password_hash: str) -> tuple[Link, User]:
        """Spend an invite, make its user and give the share that it holds: all of it or nothing."""

        def change(db: Connection) -> tuple[Link, User]:
            link = _spend(db, secret, "invite", used_by=name[:64])
            user = add_user(db, name, link.role or "observer", password_hash=password_hash)
            if link.session_id and link.share_role:
                set_share(db, link.session_id, user.id, link.share_role, link.created_by)
            return link, user

        return await self._rows.change(change)

    async def join(self, secret: str, user_id: str) -> Link:
        """Spend an invite of somebody who is a user already, and give the share that it holds."""

        def change(db: Connection) -> Link:
            link = _spend(db, secret, "invite", used_by=user_id)
            if not link.session_id or not link.share_role:
                raise BadRequest("This invite is for somebody new; you are a user already.")
            set_share(db, link.session_id, user_id, link.share_role, link.created_by)
            return link

        return await self._rows.change(change)

    async def check(self, secret: str, kind: Literal["login", "invite"]) -> None:
        """Refuse a link that does not work, and leave one that does as it is."""
        await self._rows.fetch(lambda db: _good(db, secret, kind))

    async def withdraw(self, link_id: str) -> Link:
        """Make sure that an invite is not used any more."""

        def change(db: Connection) -> Link:
            row = db.execute(select(*_COLUMNS).where(links.c.id == link_id, links.c.kind == "invite")).first()
            if row is None:
                raise NotFound(f"There is no invite {echo(link_id, 80)}.")
            db.execute(delete(links).where(links.c.id == link_id))
            return Link(*row)

        return await self._rows.change(change)

    async def _add(self, link: Link, prefix: str, *first: Any) -> tuple[Link, str]:
        secret = new_secret(prefix)
        values = {name: getattr(link, name) for name in Link.__dataclass_fields__}

        def change(db: Connection) -> None:
            db.execute(delete(links).where(links.c.expires_ms < self._clock.now_ms() - RETENTION_MS))
            for statement in first:
                db.execute(statement)
            db.execute(insert(links).values(hash=hash_of(secret), **values))

        await self._rows.change(change)
        return link, secret


def _spend(
    db: Connection, secret: str, kind: Literal["login", "invite"], *, used_by: str | None = None
) -> Link:
    """Use a link inside a transaction of the caller's."""
    link = _good(db, secret, kind)
    db.execute(
        update(links).where(links.c.id == link.id).values(used_ms=wall_ms(), used_by=used_by or link.user_id)
    )
    return link


def _good(db: Connection, secret: str, kind: Literal["login", "invite"]) -> Link:
    """A link that works; all that can be wrong with one looks the same."""
    row = db.execute(
        select(*_COLUMNS).where(
            links.c.hash == hash_of(secret),
            links.c.kind == kind,
            links.c.used_ms.is_(None),
            links.c.expires_ms > wall_ms(),
        )
    ).first()
    if row is None:
        raise Denied("This link does not work: it was used, it is too old, or it never was one.")
    return Link(*row)
