"""The event log on each engine.

The tests of a package whose conftest.py imports all of this run once on SQLite and once on PostgreSQL,
except those marked `sqlite`: they are about its files.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.store.database_location import DatabaseLocation
from hutch.store.event_log import SqlLog, open_log
from tests.new_database import place_database
from tests.postgresql_server import server

__all__ = ["location", "log", "pytest_generate_tests"]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "engine" in metafunc.fixturenames:
        more = [] if metafunc.definition.get_closest_marker("sqlite") else [pytest.mark.postgresql]
        engines = ["sqlite", *(pytest.param("postgresql", marks=mark) for mark in more)]
        metafunc.parametrize("engine", engines)


@pytest.fixture
def location(engine: str, tmp_path: Path) -> DatabaseLocation:
    """A database without rows."""
    if engine == "postgresql":
        return server().empty_database(tmp_path)
    place_database(tmp_path)
    return tmp_path / "hutch.db"


@pytest.fixture
async def log(location: DatabaseLocation, tmp_path: Path) -> AsyncIterator[SqlLog]:
    """An event log of its own, in a database that goes away."""
    async with open_log(location, tmp_path / "blobs", tmp_path / "keys" / "signing.pem") as opened:
        yield opened
