"""API tokens, as rows. Only the hash of a token is stored; its text is shown once."""

from typing import Any

from sqlalchemy import insert, select, update

from hutch.domain.errors import NotFound
from hutch.domain.ids import TokenId, UserId, new_token_id
from hutch.domain.one_line_text import echo
from hutch.domain.random_credentials_and_hashes import TOKEN, hash_of, new_secret, visible_prefix
from hutch.domain.user import Scope, User, parse_scopes
from hutch.store.schema import tokens, users
from hutch.store.table_access_interface import Rows
from hutch.store.users import get_user
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Token:
    """The data of a token, without its secret."""

    id: TokenId
    user_id: UserId
    name: str
    prefix: str
    scopes: frozenset[Scope]
    created_ms: int
    expires_ms: int | None = None
    last_used_ms: int | None = None
    revoked_ms: int | None = None

    def is_valid(self, now_ms: int) -> bool:
        return self.revoked_ms is None and (self.expires_ms is None or now_ms < self.expires_ms)


_COLUMNS = tuple(tokens.c[name] for name in Token.__dataclass_fields__)


class Tokens:
    """Creates, lists, finds and revokes tokens."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    async def create(
        self, user_id: str, *, name: str, scopes: frozenset[Scope], expires_ms: int | None
    ) -> tuple[Token, str]:
        """Create a token; returns it with its secret, which is not stored."""
        secret = new_secret(TOKEN)
        token = Token(
            new_token_id(),
            UserId(user_id),
            name,
            visible_prefix(secret),
            scopes,
            wall_ms(),
            expires_ms=expires_ms,
        )
        values = {
            "id": token.id,
            "user_id": user_id,
            "name": name,
            "hash": hash_of(secret),
            "prefix": token.prefix,
            "scopes": ",".join(sorted(scopes)),
            "created_ms": token.created_ms,
            "expires_ms": expires_ms,
        }

        def change(db: Any) -> None:
            get_user(db, user_id)
            db.execute(insert(tokens).values(values))

        await self._rows.change(change)
        return token, secret

    async def list(
        self, user_id: str | None = None, *, before: str = "", limit: int | None = None
    ) -> "list[Token]":
        """Tokens of one user, or of all; newest first."""
        statement = select(*_COLUMNS).order_by(tokens.c.id.desc()).limit(limit)
        if before:
            statement = statement.where(tokens.c.id < before)
        if user_id is not None:
            statement = statement.where(tokens.c.user_id == user_id)
        return await self._rows.fetch(lambda db: [_token(row) for row in db.execute(statement)])

    async def recognise(self, secret: str) -> tuple[Token, User] | None:
        """The token and its user. The caller checks whether it is still valid."""
        statement = (
            select(*_COLUMNS, users.c.name, users.c.role, users.c.created_ms, users.c.disabled)
            .join(users, users.c.id == tokens.c.user_id)
            .where(tokens.c.hash == hash_of(secret))
        )
        row = await self._rows.fetch(lambda db: db.execute(statement).first())
        if row is None:
            return None
        token = _token(row[:-4])
        return token, User(token.user_id, row[-4], row[-3], row[-2], bool(row[-1]))

    async def revoke(self, token_id: str, *, user_id: str | None = None) -> Token:
        """Revoke a token by its id or displayed prefix; with `user_id`, only a token of this user."""
        named = (tokens.c.id == token_id) | (tokens.c.prefix == token_id)
        if user_id is not None:
            named &= tokens.c.user_id == user_id

        def change(db: Any) -> Token:
            found = [_token(row) for row in db.execute(select(*_COLUMNS).where(named))]
            if len(found) != 1:
                raise NotFound(f"There is no token {echo(token_id, 80)}. `hutch tokens list` lists all.")
            if found[0].revoked_ms is None:
                db.execute(update(tokens).where(tokens.c.id == found[0].id).values(revoked_ms=wall_ms()))
            return _token(db.execute(select(*_COLUMNS).where(tokens.c.id == found[0].id)).one())

        return await self._rows.change(change)

    async def touch(self, token_id: str, now_ms: int) -> None:
        """Store the time of the last use."""
        statement = update(tokens).where(tokens.c.id == token_id).values(last_used_ms=now_ms)
        await self._rows.change(lambda db: db.execute(statement).rowcount)


def _token(row: Any) -> Token:
    values = dict(zip(Token.__dataclass_fields__, row, strict=True))
    return Token(**{**values, "scopes": parse_scopes([values["scopes"]])})
