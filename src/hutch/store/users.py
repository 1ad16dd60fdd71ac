"""The users of an installation, as rows."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import Connection, bindparam, func, insert, select, update

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.domain.ids import UserId, new_user_id
from hutch.domain.one_line_text import echo
from hutch.domain.user import Role, User, name_key, parse_name
from hutch.store.schema import identities, users
from hutch.store.table_access_interface import Rows
from hutch.system.clock_without_jumps import wall_ms

_COLUMNS = (users.c.id, users.c.name, users.c.role, users.c.created_ms, users.c.disabled)
_GET = select(*_COLUMNS).where(users.c.id == bindparam("user"))


class Users:
    """Creates, finds and changes accounts. They are never deleted, so that the audit log keeps its names."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def add(self, name: str, role: Role, *, password_hash: str = "") -> User:
        return await self._rows.change(lambda db: add_user(db, name, role, password_hash=password_hash))

    async def add_first_owner(self, name: str) -> User | None:
        """Create an owner if there are no users yet; of concurrent callers, one succeeds."""

        def change(db: Connection) -> User | None:
            if db.execute(select(func.count()).select_from(users)).scalar_one():
                return None
            return add_user(db, name, "owner")

        return await self._rows.change(change)

    async def list(self, *, after: str = "", limit: int | None = None) -> "list[User]":
        """Oldest first, starting after the id `after`."""
        statement = select(*_COLUMNS).where(users.c.id > after).order_by(users.c.id).limit(limit)
        return await self._rows.fetch(lambda db: [_user(row) for row in db.execute(statement)])

    async def get(self, user_id: str) -> User:
        return await self._rows.fetch(lambda db: get_user(db, user_id))

    async def first_owner(self) -> User | None:
        """The user of this machine, for whom its commands work; None in an installation without users."""
        return next((user for user in await self.list() if user.role == "owner" and not user.disabled), None)

    async def names(self, user_ids: Collection[str]) -> dict[str, str]:
        """The names of these users; empty for unknown ids."""
        statement = select(users.c.id, users.c.name).where(users.c.id.in_(user_ids))
        found = await self._rows.fetch(lambda db: {row.id: row.name for row in db.execute(statement)})
        return {user_id: found.get(user_id, "") for user_id in user_ids}

    async def find(self, name: str) -> User:
        """A user by id or name, for the command line."""
        statement = select(*_COLUMNS).where((users.c.id == name) | (users.c.name_key == name_key(name)))
        row = await self._rows.fetch(lambda db: db.execute(statement).first())
        if row is None:
            raise NotFound(f"There is no user {echo(name, 80)}. `hutch users list` lists all.")
        return _user(row)

    async def find_with_password_hash(self, name: str) -> tuple[User, str] | None:
        """A user and the hash of the password, which may be empty; None if there is no such user."""
        statement = select(*_COLUMNS, users.c.password_hash).where(users.c.name_key == name_key(name))
        row = await self._rows.fetch(lambda db: db.execute(statement).first())
        return None if row is None else (_user(row[:-1]), str(row[-1]))

    async def set_password(self, user_id: str, password_hash: str) -> None:
        await self._change(user_id, password_hash=password_hash)

    async def set_role(self, user_id: str, role: Role) -> User:
        return await self._rows.change(lambda db: self._set(db, user_id, role=role))

    async def set_disabled(self, user_id: str, disabled: bool) -> User:
        return await self._rows.change(lambda db: self._set(db, user_id, disabled=disabled))

    async def find_by_identity(self, issuer: str, subject: str) -> User | None:
        """The user of this subject of an identity provider."""
        statement = (
            select(*_COLUMNS)
            .join(identities, identities.c.user_id == users.c.id)
            .where(identities.c.issuer == issuer, identities.c.subject == subject)
        )
        row = await self._rows.fetch(lambda db: db.execute(statement).first())
        return None if row is None else _user(row)

    async def link_identity(self, issuer: str, subject: str, email: str, role: Role) -> User:
        """Link an identity to the user that has its e-mail address as name, or to a new user.

        An account with a password or another identity already belongs to a person: another
        provider that reports the same address does not get it.
        """

        def change(db: Connection) -> User:
            found = db.execute(
                select(*_COLUMNS, users.c.password_hash).where(users.c.name_key == name_key(email))
            ).first()
            if found is None:
                user = add_user(db, email, role)
            else:
                user = _user(found[:-1])
                theirs = select(func.count()).where(identities.c.user_id == user.id)
                if found[-1] or db.execute(theirs).scalar_one():
                    raise Conflict(f"The account {email!r} already has another login method. Use that.")
            db.execute(
                insert(identities).values(
                    issuer=issuer, subject=subject, user_id=user.id, email=email, created_ms=wall_ms()
                )
            )
            return user

        return await self._rows.change(change)

    async def _change(self, user_id: str, **values: Any) -> None:
        statement = update(users).where(users.c.id == user_id).values(**values)
        if await self._rows.change(lambda db: db.execute(statement).rowcount) != 1:
            raise user_not_found(user_id)

    def _set(self, db: Connection, user_id: str, **values: Any) -> User:
        """Change a user, but refuse to leave the installation without an owner."""
        get_user(db, user_id)
        db.execute(update(users).where(users.c.id == user_id).values(**values))
        in_charge = select(func.count()).where(users.c.role == "owner", users.c.disabled.is_(False))
        if not db.execute(in_charge).scalar_one():
            raise BadRequest(
                "This is the last owner, and there must be one. Make another user an owner first."
            )
        return get_user(db, user_id)


def add_user(db: Connection, name: str, role: Role, *, password_hash: str = "") -> User:
    name = parse_name(name)
    if db.execute(select(users.c.id).where(users.c.name_key == name_key(name))).first():
        raise Conflict(f"There is a user {name!r} already. Choose another name.")
    user = User(new_user_id(), name, role, wall_ms())
    db.execute(
        insert(users).values(
            id=user.id,
            name=name,
            name_key=name_key(name),
            role=role,
            password_hash=password_hash,
            created_ms=user.created_ms,
            disabled=False,
        )
    )
    return user


def get_user(db: Connection, user_id: str) -> User:
    row = db.execute(_GET, {"user": user_id}).first()
    if row is None:
        raise user_not_found(user_id)
    return _user(row)


def user_not_found(user_id: str) -> NotFound:
    return NotFound(f"There is no user {echo(user_id, 80)}.")


def _user(row: Any) -> User:
    user_id, name, role, created_ms, disabled = row
    return User(UserId(user_id), name, role, created_ms, bool(disabled))
