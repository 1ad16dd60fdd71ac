"""Vectors of parts of files, by the hash of the file's content, and the search for the nearest ones.

A database file of its own: one beside a base, for its files, which all its workspaces share, and one in each
workspace for what is new there. It is computed from files, so it can be dropped at any time.
"""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import sqlite_vec

from hutch.domain.errors import Unavailable

MAX_PARTS = 200_000  # beyond which the file is made anew
FLOAT_BYTES = 4
VectorsDamaged = sqlite3.DatabaseError
_SCHEMA = """
CREATE TABLE model(name TEXT NOT NULL, dimensions INTEGER NOT NULL);
CREATE TABLE content(blob BLOB PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE part(
  id INTEGER PRIMARY KEY, blob BLOB NOT NULL, first_line INTEGER NOT NULL, last_line INTEGER NOT NULL);
CREATE INDEX part_by_blob ON part(blob);
"""


class FilePart(NamedTuple):
    """Some lines of a file, and their vector."""

    first_line: int
    last_line: int
    vector: bytes


class NearPart(NamedTuple):
    """Lines of a file whose vector is near to that of a query; less distance is better."""

    blob: bytes
    first_line: int
    last_line: int
    distance: float


class CodeVectorTables:
    """The open database, for vectors of one model. One thread uses it at a time."""

    def __init__(self, path: Path, model: str) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            _load_extension(self._database)
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            self._model = model
            with self._transaction():
                self._prepare()
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        self._database.close()

    def known(self) -> set[bytes]:
        """The contents that have their vectors."""
        return {blob for (blob,) in self._database.execute("SELECT blob FROM content")}

    def add(self, contents: Sequence[tuple[bytes, Sequence[FilePart]]]) -> None:
        """Store the vectors of contents; those that another process has stored meanwhile stay."""
        with self._transaction():
            for blob, parts in contents:
                added = self._database.execute("INSERT OR IGNORE INTO content(blob) VALUES (?)", (blob,))
                for part in parts if added.rowcount else ():
                    self._add_part(blob, part)

    def find(self, vector: bytes, blobs: Collection[bytes], limit: int) -> list[NearPart]:
        """The parts of these contents that are nearest to a vector."""
        if len(vector) != self._dimensions() * FLOAT_BYTES:
            return []
        self._database.execute("CREATE TEMP TABLE IF NOT EXISTS wanted(blob BLOB PRIMARY KEY) WITHOUT ROWID")
        with self._transaction():
            self._database.execute("DELETE FROM wanted")
            self._database.executemany("INSERT OR IGNORE INTO wanted VALUES (?)", ((blob,) for blob in blobs))
        rows = self._database.execute(
            "SELECT part.blob, first_line, last_line, distance "
            "FROM vector JOIN part ON part.id = vector.rowid "
            "WHERE embedding MATCH ? AND k = ? AND vector.rowid IN "
            "(SELECT id FROM part JOIN wanted ON wanted.blob = part.blob) ORDER BY distance",
            (vector, limit),
        )
        return [NearPart(*row) for row in rows]

    def _prepare(self) -> None:
        tables = {name for (name,) in self._database.execute("SELECT name FROM sqlite_master")}
        if "model" in tables:
            row = self._database.execute("SELECT name, (SELECT count(*) FROM part) FROM model").fetchone()
            if row and row[0] == self._model and row[1] <= MAX_PARTS:
                return
            for name in ("vector", "part", "content", "model"):
                self._database.execute(f"DROP TABLE IF EXISTS {name}")
        for statement in filter(str.strip, _SCHEMA.split(";")):
            self._database.execute(statement)
        self._database.execute("INSERT INTO model VALUES (?, 0)", (self._model,))

    def _dimensions(self) -> int:
        return int(self._database.execute("SELECT dimensions FROM model").fetchone()[0])

    def _add_part(self, blob: bytes, part: FilePart) -> None:
        if not self._dimensions():
            size = len(part.vector) // FLOAT_BYTES
            self._database.execute("UPDATE model SET dimensions = ?", (size,))
            self._database.execute(
                f"CREATE VIRTUAL TABLE vector USING vec0(embedding float[{size}] distance_metric=cosine)"
            )
        added = self._database.execute(
            "INSERT INTO part(blob, first_line, last_line) VALUES (?, ?, ?)",
            (blob, part.first_line, part.last_line),
        )
        self._database.execute(
            "INSERT INTO vector(rowid, embedding) VALUES (?, ?)", (added.lastrowid, part.vector)
        )

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")


def remove_vectors(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _load_extension(database: sqlite3.Connection) -> None:
    if not hasattr(database, "enable_load_extension"):
        raise Unavailable("This Python cannot load extensions of SQLite, which search by meaning needs.")
    database.enable_load_extension(True)
    sqlite_vec.load(database)
    database.enable_load_extension(False)
