"""The index of one workspace's code: its words by file, and its symbols and references.

A database file of its own beside the workspace, not a part of the log's database: it is
computed from a snapshot, so it can be dropped at any time, and it ends with the workspace.
Documents are keyed by the hash of their content, so a version is parsed once.
"""

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

VERSION = "2"
IndexDamaged = sqlite3.DatabaseError
_WORDS = "tokenize=\"unicode61 remove_diacritics 0 tokenchars '_'\""
_SCHEMA = f"""
CREATE TABLE state(name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE document(
  id INTEGER PRIMARY KEY, blob BLOB NOT NULL, language TEXT NOT NULL, chars INTEGER NOT NULL,
  symbols TEXT NOT NULL, uses TEXT NOT NULL, UNIQUE(blob, language));
CREATE TABLE file(
  id INTEGER PRIMARY KEY, path BLOB NOT NULL UNIQUE, document INTEGER NOT NULL,
  chars INTEGER NOT NULL);  -- as its document: that row is long
CREATE INDEX file_by_document ON file(document);
CREATE TABLE symbol(name TEXT NOT NULL COLLATE NOCASE, document INTEGER NOT NULL);
CREATE INDEX symbol_by_name ON symbol(name);
CREATE VIRTUAL TABLE words USING fts5(names, body, content='', {_WORDS});
CREATE VIRTUAL TABLE path_words USING fts5(words, {_WORDS});
CREATE VIRTUAL TABLE vocabulary USING fts5vocab(words, row);
"""
_NAME_WEIGHT, _BODY_WEIGHT = 3.0, 1.0


class IndexedDocument(NamedTuple):
    """A version of a file, for the index. Words are separated by spaces."""

    blob: bytes
    language: str
    chars: int  # of its text; 0 if that is not indexed
    names: str
    body: str
    symbols: Sequence[Sequence[str | int]]
    uses: Mapping[str, Sequence[int]]  # the lines that use a name


class SizedFile(NamedTuple):
    """A file, and how many characters of its text are indexed."""

    path: bytes
    document: int
    chars: int


class FoundFile(NamedTuple):
    """A file whose path matches. More is better."""

    file: SizedFile
    score: float


class CodeIndexTables:
    """The open database. One thread uses it at a time."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            # It is computed again if a crash damages it, so nothing needs to be synced.
            self._database.execute("PRAGMA journal_mode = WAL")
            self._database.execute("PRAGMA synchronous = OFF")
            if self._read_state("version") is None:
                self._database.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}COMMIT")
                self.set_version(VERSION)
        except BaseException:
            self._database.close()
            raise

    def close(self) -> None:
        self._database.close()

    @property
    def is_current(self) -> bool:
        """True if this version of Hutch wrote the tables."""
        return self._read_state("version") == VERSION

    def set_version(self, version: str) -> None:
        self._write_state("version", version)

    @property
    def tree(self) -> str:
        """The tree that is completely indexed; empty if there is none."""
        return self._read_state("tree") or ""

    @tree.setter
    def tree(self, name: str) -> None:
        self._write_state("tree", name)

    @property
    def map(self) -> str:
        """The stored ranking for the map of this tree; empty if there is none."""
        tree, _, value = (self._read_state("map") or "").partition(" ")
        return value if tree == self.tree else ""

    @map.setter
    def map(self, value: str) -> None:
        self._write_state("map", f"{self.tree} {value}")

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._database.execute("ROLLBACK")
            raise
        self._database.execute("COMMIT")

    def files(self) -> dict[bytes, bytes]:
        """The blob of each indexed path."""
        rows = self._database.execute(
            "SELECT path, blob FROM file JOIN document ON document.id = file.document"
        )
        return dict(rows.fetchall())

    def counts(self) -> tuple[int, int]:
        """The numbers of files and of documents; the latter include earlier versions."""
        (row,) = self._database.execute("SELECT (SELECT count(*) FROM file), (SELECT count(*) FROM document)")
        return int(row[0]), int(row[1])

    def find_document(self, blob: bytes, language: str) -> int | None:
        """The id of a version of a file."""
        row = self._database.execute(
            "SELECT id FROM document WHERE blob = ? AND language = ?", (blob, language)
        ).fetchone()
        return int(row[0]) if row else None

    def add_document(self, document: IndexedDocument) -> int:
        """Store a version of a file; returns its id."""
        added = self._database.execute(
            "INSERT INTO document(blob, language, chars, symbols, uses) VALUES (?, ?, ?, ?, ?)",
            (
                *(document.blob, document.language, document.chars),
                *(json.dumps(document.symbols), json.dumps(document.uses)),
            ),
        )
        number = added.lastrowid
        assert number is not None
        self._database.execute(
            "INSERT INTO words(rowid, names, body) VALUES (?, ?, ?)", (number, document.names, document.body)
        )
        self._database.executemany(
            "INSERT INTO symbol(name, document) VALUES (?, ?)",
            [(name, number) for name in {str(symbol[1]) for symbol in document.symbols}],
        )
        return number

    def set_file(self, path: bytes, words: str, document: int) -> None:
        """Note that a path has the content of a document. `words` are those of the path."""
        self._database.execute(
            "INSERT INTO file(path, document, chars) SELECT ?, id, chars FROM document WHERE id = ? "
            "ON CONFLICT(path) DO UPDATE SET document = excluded.document, chars = excluded.chars",
            (path, document),
        )
        (number,) = self._database.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchone()
        self._database.execute(
            "INSERT OR REPLACE INTO path_words(rowid, words) VALUES (?, ?)", (number, words)
        )

    def remove_files(self, paths: Iterable[bytes]) -> None:
        for path in paths:
            row = self._database.execute("SELECT id FROM file WHERE path = ?", (path,)).fetchone()
            if row:
                self._database.execute("DELETE FROM path_words WHERE rowid = ?", row)
                self._database.execute("DELETE FROM file WHERE id = ?", row)

    def find_by_words(self, words: Sequence[str], limit: int) -> list[tuple[int, float]]:
        """The ids and scores of the documents that have any of these words, the best first."""
        rows = self._database.execute(
            "SELECT rowid, -bm25(words, ?, ?) AS score FROM words WHERE words MATCH ? "
            "ORDER BY score DESC, rowid LIMIT ?",
            (_NAME_WEIGHT, _BODY_WEIGHT, _any(words), limit),
        )
        return rows.fetchall()

    def find_containing(self, word: str) -> list[int]:
        """The ids of all documents that have a word."""
        rows = self._database.execute("SELECT rowid FROM words WHERE words MATCH ?", (_any([word]),))
        return [number for (number,) in rows]

    def files_of(self, documents: Sequence[int]) -> list[SizedFile]:
        """The files that have these documents as their content."""
        marks = ", ".join("?" * len(documents))
        rows = self._database.execute(
            f"SELECT path, document, chars FROM file WHERE document IN ({marks}) ORDER BY path", documents
        )
        return [SizedFile(*row) for row in rows]

    def find_by_path(self, words: Sequence[str], limit: int) -> list[FoundFile]:
        """Files whose path has any of these words, the best first."""
        rows = self._database.execute(
            "SELECT path, document, chars, -bm25(path_words) AS score FROM path_words "
            "JOIN file ON file.id = path_words.rowid WHERE path_words MATCH ? "
            "ORDER BY score DESC, path LIMIT ?",
            (_any(words), limit),
        )
        return [FoundFile(SizedFile(path, document, chars), score) for path, document, chars, score in rows]

    def find_definitions(self, name: str, limit: int) -> list[bytes]:
        """The files that define a symbol of this name, in any case."""
        rows = self._database.execute(
            "SELECT DISTINCT path FROM symbol JOIN file ON file.document = symbol.document "
            "WHERE name = ? ORDER BY path LIMIT ?",
            (name, limit),
        )
        return [path for (path,) in rows]

    def read_file(self, path: bytes) -> tuple[bytes, list[list[str | int]], dict[str, list[int]]] | None:
        """The blob of a path, its symbols, and the lines that use names."""
        row = self._database.execute(
            "SELECT blob, symbols, uses FROM file JOIN document ON document.id = file.document "
            "WHERE path = ?",
            (path,),
        ).fetchone()
        return (row[0], json.loads(row[1]), json.loads(row[2])) if row else None

    def outline(self) -> Iterator[tuple[bytes, str]]:
        """The path and the symbols, as JSON, of every file, by path."""
        yield from self._database.execute(
            "SELECT path, symbols FROM file JOIN document ON document.id = file.document ORDER BY path"
        )

    def symbols_and_uses(self) -> Iterator[tuple[bytes, str, str]]:
        """The path of every file, its symbols and the names that it uses, as JSON."""
        yield from self._database.execute(
            "SELECT path, symbols, uses FROM file JOIN document ON document.id = file.document"
        )

    def document_counts(self, words: Sequence[str]) -> dict[str, int]:
        """The number of documents that have each word."""
        marks = ", ".join("?" * len(words))
        rows = self._database.execute(f"SELECT term, doc FROM vocabulary WHERE term IN ({marks})", words)
        return {term: int(number) for term, number in rows}

    def _read_state(self, name: str) -> str | None:
        try:
            row = self._database.execute("SELECT value FROM state WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError:
            return None  # the database is new
        return str(row[0]) if row else None

    def _write_state(self, name: str, value: str) -> None:
        self._database.execute("INSERT OR REPLACE INTO state(name, value) VALUES (?, ?)", (name, value))


def _any(words: Sequence[str]) -> str:
    """A query for any of the words, each of them quoted: they are untrusted."""
    return " OR ".join(f'"{word.replace(chr(34), "")}"' for word in words)
