"""Databases of one process share their compiled statements, and nothing else."""

from pathlib import Path

from sqlalchemy import Engine, insert, select

from hutch.store.compiled_statement_cache import COMPILED
from hutch.store.database import open_database
from hutch.store.schema import public_keys


def keys(engine: Engine) -> list[str]:
    with engine.connect() as connection:
        return list(connection.scalars(select(public_keys.c.fingerprint)))


def add(engine: Engine, fingerprint: str) -> None:
    with engine.connect() as connection:
        connection.execute(insert(public_keys).values(fingerprint=fingerprint, public_key=b"key"))


def test_a_statement_is_compiled_once_for_all_databases(tmp_path: Path) -> None:
    first, second = (open_database(tmp_path / name / "hutch.db") for name in ("first", "second"))
    try:
        add(first, "one")
        assert keys(first) == ["one"]
        compiled = len(COMPILED)
        assert compiled
        add(second, "two")
        assert (keys(first), keys(second)) == (["one"], ["two"])
        assert len(COMPILED) == compiled
    finally:
        first.dispose()
        second.dispose()
