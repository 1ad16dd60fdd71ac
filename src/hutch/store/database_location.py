"""Where the database of an installation is: a file of SQLite, or a database in PostgreSQL."""

from dataclasses import field
from pathlib import Path

from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PostgresqlDatabase:
    """A database of a PostgreSQL server, and the data directory with the other files of the installation."""

    url: str  # without a password, so it may be printed
    data: Path
    password: str = field(default="", repr=False)  # empty: libpq looks for one

    def __repr__(self) -> str:
        return self.url

    def __str__(self) -> str:
        return self.url


DatabaseLocation = Path | PostgresqlDatabase
