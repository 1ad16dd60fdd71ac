"""The index of a workspace's code: brought up to a snapshot's tree before each search.

Only new versions of files are read and parsed. The index of a base is built once and
copied into each of its workspaces. An index that was damaged or written by another
version of Hutch is removed and built again.

Content and names are hostile: sizes, numbers and times are bounded, and what could not be
indexed in time follows with the next search.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import structlog

from hutch.domain.errors import HutchError
from hutch.domain.secret_file_names import has_secret_name
from hutch.edit.syntax_parser import ParseFailed
from hutch.snapshots.git_object_reader import GitObjects
from hutch.snapshots.snapshot import Snapshots
from hutch.store.code_index_database import CodeIndexTables, IndexDamaged, IndexedDocument
from hutch.system.file_lock import locked
from hutch.workspace.code_search.git_tree_files import changed_files, list_files
from hutch.workspace.code_search.search_words import index_words
from hutch.workspace.code_search.symbols_and_references import (
    NOTHING_PARSED,
    ParsedFile,
    language_of,
    parse_file,
)

FILE = "code-index.sqlite"
MAX_FILES = 50_000
MAX_FILE_BYTES = 512 * 1024  # of a larger file only the path is indexed
MAX_CHANGED = 5_000  # files of an update that is planned from the changes alone
MAX_PARSE_FAILURES = 20  # in one update; a failure may have taken its whole time limit
UPDATE_TIMEOUT_S = 30.0
BATCH_FILES = 200
STALE_DOCUMENTS = 2_000  # earlier versions, beyond which the index is built again
logger = structlog.get_logger()


class IndexState(NamedTuple):
    """How much of a tree is indexed."""

    files: int
    missing: int  # files that could not be indexed in time
    is_cut: bool  # the tree has too many files


@contextmanager
def open_current_index(
    directory: Path, snapshots: Snapshots, tree: bytes, *, timeout_s: float = UPDATE_TIMEOUT_S
) -> Iterator[tuple[CodeIndexTables, IndexState]]:
    """Open the index in a workspace's directory, brought up to a tree. Blocks the thread."""
    path = directory / FILE
    until = time.monotonic() + timeout_s
    with locked(directory / f"{FILE}.lock"):
        try:
            tables = _open(path, snapshots, until)
            try:
                state = _update(tables, snapshots.storage.objects, tree, until)
            except BaseException:
                tables.close()
                raise
        except IndexDamaged as error:  # damaged: it is computed again
            logger.warning("the code index is built again", error=str(error))
            remove_index(path)
            tables = CodeIndexTables(path)
            state = _update(tables, snapshots.storage.objects, tree, until)
        try:
            yield tables, state
        finally:
            tables.close()


def remove_index(path: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def _open(path: Path, snapshots: Snapshots, until: float) -> CodeIndexTables:
    """Open an index; a new one begins as a copy of the base's, if there is a base."""
    if not path.exists() and snapshots.base is not None:
        base = snapshots.base
        shared = base.path.with_name(FILE)
        if base.top.files is not None and not shared.exists():
            try:
                _build_shared(shared, snapshots.storage.objects, base.top.files, until, partial_copy=path)
            except IndexDamaged as error:
                logger.warning("the code index of a base is built again", error=str(error))
                remove_index(shared.with_name(f"{shared.name}.building"))
        if not path.exists():
            with suppress(FileNotFoundError):
                path.write_bytes(shared.read_bytes())
    tables = CodeIndexTables(path)
    files, documents = tables.counts() if tables.is_current else (0, 0)
    if tables.is_current and documents <= 2 * files + STALE_DOCUMENTS:
        return tables
    tables.close()
    remove_index(path)
    return CodeIndexTables(path)


def _build_shared(
    shared: Path, objects: GitObjects, tree: bytes, until: float, *, partial_copy: Path
) -> None:
    """Build the index of a base, unless another process did. Copy the part that is done in time."""
    building = shared.with_name(f"{shared.name}.building")
    with locked(shared.with_name(f"{shared.name}.lock")):
        if shared.exists():
            return
        tables = CodeIndexTables(building)
        try:
            state = _update(tables, objects, tree, until)
        finally:
            tables.close()  # the last connection: the log is written back
        if state.missing:  # the next session goes on with it
            partial_copy.write_bytes(building.read_bytes())
        else:
            building.rename(shared)


def _update(tables: CodeIndexTables, objects: GitObjects, tree: bytes, until: float) -> IndexState:
    """Bring the index up to a tree."""
    if tables.tree == tree.hex():
        return IndexState(tables.counts()[0], 0, is_cut=False)
    plan = _plan_changes(tables, objects, tree) or _plan_all(tables, objects, tree)
    gone, new, is_cut = plan
    tables.tree = ""  # until it is complete
    done = 0
    with ThreadPoolExecutor(1, thread_name_prefix="code-index") as pool:
        reader = _Reader(objects, pool)
        with tables.transaction():
            tables.remove_files(gone)
        for batch in _batches(new, BATCH_FILES):
            if time.monotonic() > until:
                break
            _add_batch(tables, reader, batch)
            done += len(batch)
    missing = len(new) - done
    if not missing and not is_cut:
        tables.tree = tree.hex()
    return IndexState(tables.counts()[0] + missing, missing, is_cut)


class _Plan(NamedTuple):
    """The changes that bring an index up to a tree."""

    gone: Sequence[bytes]
    new: Sequence[tuple[bytes, bytes]]
    is_cut: bool


def _plan_changes(tables: CodeIndexTables, objects: GitObjects, tree: bytes) -> _Plan | None:
    """The plan from the tree that is indexed; None if there is none, or too much has changed."""
    if not tables.tree:
        return None
    try:
        changed = list(islice(changed_files(objects, bytes.fromhex(tables.tree), tree), MAX_CHANGED + 1))
    except HutchError:  # its objects are no longer stored
        return None
    new = [(path, blob) for path, blob in changed if blob is not None and not _is_secret(path)]
    if len(changed) > MAX_CHANGED or tables.counts()[0] + len(new) > MAX_FILES:
        return None
    return _Plan([path for path, blob in changed if blob is None], new, is_cut=False)


def _plan_all(tables: CodeIndexTables, objects: GitObjects, tree: bytes) -> _Plan:
    listed = dict(islice(list_files(objects, tree), MAX_FILES + 1))
    is_cut = len(listed) > MAX_FILES
    if is_cut:
        listed.popitem()
    known = tables.files()
    gone = [path for path in known if path not in listed]
    new = [each for each in listed.items() if known.get(each[0]) != each[1] and not _is_secret(each[0])]
    return _Plan(gone, new, is_cut)


def _is_secret(path: bytes) -> bool:
    return has_secret_name(os.fsdecode(path.rpartition(b"/")[2]))


def _batches(items: Sequence[tuple[bytes, bytes]], size: int) -> Iterator[Sequence[tuple[bytes, bytes]]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _add_batch(tables: CodeIndexTables, reader: "_Reader", batch: Sequence[tuple[bytes, bytes]]) -> None:
    """Add versions of files. While one is split into words, the next are parsed by another process."""
    added: dict[tuple[bytes, str], int] = {}
    with tables.transaction():
        reading: list[tuple[bytes, bytes, str, Future[tuple[str, ParsedFile]] | None]] = []
        for path, blob in batch:
            language = language_of(os.fsdecode(path))
            number = tables.find_document(blob, language)
            if number is not None:
                added[blob, language] = number
            is_new = (blob, language) not in added
            reading.append((path, blob, language, reader.read_soon(path, blob) if is_new else None))
        for path, blob, language, parsing in reading:
            key = (blob, language)
            if key not in added and parsing is not None:
                text, parsed = parsing.result()
                added[key] = tables.add_document(
                    IndexedDocument(
                        blob=blob,
                        language=language,
                        chars=len(text),
                        names=index_words(" ".join(symbol.name for symbol in parsed.symbols)),
                        body=index_words(text),
                        symbols=parsed.symbols,
                        uses=parsed.references,
                    )
                )
            tables.set_file(path, index_words(os.fsdecode(path)), added[key])


class _Reader:
    """Reads and parses files, until too many of them cannot be parsed."""

    def __init__(self, objects: GitObjects, pool: ThreadPoolExecutor) -> None:
        self._objects = objects
        self._pool = pool
        self._failures = 0

    def read_soon(self, path: bytes, blob: bytes) -> "Future[tuple[str, ParsedFile]]":
        return self._pool.submit(self._read, os.fsdecode(path), blob)

    def _read(self, path: str, blob: bytes) -> tuple[str, ParsedFile]:
        text = read_text(self._objects, blob)
        if self._failures >= MAX_PARSE_FAILURES:
            return text, NOTHING_PARSED
        try:
            return text, parse_file(path, text)
        except ParseFailed as error:
            self._failures += 1
            logger.info("a file is indexed without its symbols", path=path, error=str(error))
            return text, NOTHING_PARSED


def read_text(objects: GitObjects, blob: bytes, clean: Callable[[bytes], bytes] = bytes) -> str:
    """The text of a blob; empty if it is binary or too large."""
    data = bytearray()
    for chunk in objects.chunks(blob):
        data += chunk
        if len(data) > MAX_FILE_BYTES:
            return ""
    if b"\0" in data[:8192]:
        return ""
    return clean(bytes(data)).decode("utf-8", "replace")
