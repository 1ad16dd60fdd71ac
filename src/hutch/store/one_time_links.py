"""One-time links, as rows: for a login or an invite. Each works once and expires."""

from collections.abc import Sequence
from typing import Any, Literal

from sqlalchemy import Connection, delete, insert, select, update

from hutch.domain.errors import BadRequest, Denied, NotFound
from hutch.domain.ids import LinkId, UserId, new_link_id
from hutch.domain.one_line_text import echo
from hutch.domain.random_credentials_and_hashes import INVITE, LINK, hash_of, new_secret
from hutch.domain.user import Role, ShareRole, ShareScope, User
from hutch.store.schema import links
from hutch.store.shares import set_share, split_scopes
from hutch.store.table_access_interface import Rows
from hutch.store.users import add_user
from hutch.system.clock_without_jumps import STEADY, SteadyClock, wall_ms
from hutch.system.lazy_dataclass import dataclass

RETENTION_MS = 30 * 24 * 3600 * 1000  # after they expire


@dataclass(frozen=True, slots=True)
class Link:
    """The purpose of a link, without its secret."""

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
    more_sessions: tuple[str, ...] = ()  # besides `session_id`
    share_scopes: tuple[ShareScope, ...] = ()  # empty: all that the role in the sessions includes
    access_until_ms: int | None = None  # when the shares end

    @property
    def session_ids(self) -> tuple[str, ...]:
        """The sessions that an invite shares."""
        return (self.session_id, *self.more_sessions) if self.session_id else ()


_COLUMNS = tuple(links.c[name] for name in Link.__dataclass_fields__)


class OneTimeLinks:
    """Creates, redeems and withdraws links."""

    def __init__(self, rows: Rows, clock: SteadyClock = STEADY) -> None:
        self._rows = rows
        self._clock = clock

    async def login(self, user_id: str, *, life_ms: int, created_by: str) -> tuple[Link, str]:
        """Create a login link for this user. Earlier ones stop working."""
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
        more_sessions: Sequence[str] = (),
        share_scopes: tuple[ShareScope, ...] = (),
        access_until_ms: int | None = None,
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
            more_sessions=tuple(more_sessions),
            share_scopes=share_scopes,
            access_until_ms=access_until_ms,
        )
        return await self._add(link, INVITE)

    async def invites(self, *, before: str = "", limit: int | None = None) -> list[Link]:
        """The valid invites, newest first."""
        query = (
            select(*_COLUMNS)
            .where(links.c.kind == "invite", links.c.used_ms.is_(None), links.c.expires_ms > wall_ms())
            .order_by(links.c.id.desc())
            .limit(limit)
        )
        if before:
            query = query.where(links.c.id < before)
        return await self._rows.fetch(lambda db: [_link(row) for row in db.execute(query)])

    async def redeem(self, secret: str, kind: Literal["login", "invite"]) -> Link:
        """Use a link; of concurrent callers, one succeeds."""
        return await self._rows.change(lambda db: _redeem(db, secret, kind))

    async def accept(self, secret: str, *, name: str, password_hash: str) -> tuple[Link, User]:
        """Redeem an invite, create its user and grant its share, in one transaction."""

        def change(db: Connection) -> tuple[Link, User]:
            link = _redeem(db, secret, "invite", used_by=name[:64])
            user = add_user(db, name, link.role or "observer", password_hash=password_hash)
            _share(db, link, user.id)
            return link, user

        return await self._rows.change(change)

    async def join(self, secret: str, user_id: str) -> Link:
        """Redeem an invite for an existing user, and grant its share."""

        def change(db: Connection) -> Link:
            link = _redeem(db, secret, "invite", used_by=user_id)
            if not link.session_id or not link.share_role:
                raise BadRequest("This invite is for a new user; you already have an account.")
            _share(db, link, user_id)
            return link

        return await self._rows.change(change)

    async def check(self, secret: str, kind: Literal["login", "invite"]) -> Link:
        """Raise if a link is invalid; does not redeem it."""
        return await self._rows.fetch(lambda db: _find_valid(db, secret, kind))

    async def withdraw(self, link_id: str) -> Link:
        """Delete an invite, so that it no longer works."""

        def change(db: Connection) -> Link:
            row = db.execute(select(*_COLUMNS).where(links.c.id == link_id, links.c.kind == "invite")).first()
            if row is None:
                raise NotFound(f"There is no invite {echo(link_id, 80)}.")
            db.execute(delete(links).where(links.c.id == link_id))
            return _link(row)

        return await self._rows.change(change)

    async def _add(self, link: Link, prefix: str, *first: Any) -> tuple[Link, str]:
        secret = new_secret(prefix)
        values = {name: getattr(link, name) for name in Link.__dataclass_fields__}
        values |= {name: ",".join(values[name]) for name in ("more_sessions", "share_scopes")}

        def change(db: Connection) -> None:
            db.execute(delete(links).where(links.c.expires_ms < self._clock.now_ms() - RETENTION_MS))
            for statement in first:
                db.execute(statement)
            db.execute(insert(links).values(hash=hash_of(secret), **values))

        await self._rows.change(change)
        return link, secret


def _redeem(
    db: Connection, secret: str, kind: Literal["login", "invite"], *, used_by: str | None = None
) -> Link:
    """Use a link inside the caller's transaction."""
    link = _find_valid(db, secret, kind)
    db.execute(
        update(links).where(links.c.id == link.id).values(used_ms=wall_ms(), used_by=used_by or link.user_id)
    )
    return link


def _find_valid(db: Connection, secret: str, kind: Literal["login", "invite"]) -> Link:
    """A valid link. All reasons for refusal give the same message."""
    row = db.execute(
        select(*_COLUMNS).where(
            links.c.hash == hash_of(secret),
            links.c.kind == kind,
            links.c.used_ms.is_(None),
            links.c.expires_ms > wall_ms(),
        )
    ).first()
    if row is None:
        raise Denied("This link does not work: it was used, it has expired, or it never existed.")
    return _link(row)


def _link(row: Any) -> Link:
    values = dict(row._mapping)
    values["more_sessions"] = tuple(id for id in values["more_sessions"].split(",") if id)
    return Link(**{**values, "share_scopes": split_scopes(values["share_scopes"])})


def _share(db: Connection, link: Link, user_id: str) -> None:
    """Give a user the shares of an invite."""
    if link.share_role:
        for session_id in link.session_ids:
            set_share(
                db,
                session_id,
                user_id,
                link.share_role,
                link.created_by,
                link.share_scopes,
                link.access_until_ms,
            )
