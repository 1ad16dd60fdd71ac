"""Writes a backup of an installation, also while its server runs.

First the database is copied, in one read transaction: that moment is the backup's. The blobs that
this copy names get a second name in the same step, so an erasure that follows cannot take them
from it. Workspaces and the storage of snapshots come later. So each log names only snapshots that
are in the backup, and a workspace may be newer than its log: that is what a crash leaves, too, and
waking the session records the difference.
"""

import errno
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, NamedTuple

import hutch
from hutch.domain.errors import Conflict, NotFound
from hutch.flows.backups.backup_format import (
    ABOUT,
    BLOBS,
    DATA,
    DATABASE,
    FILES,
    KEYS,
    LOGS,
    MANIFEST,
    MAX_NAMED,
    SETTINGS,
    About,
    Manifest,
    is_copied,
    log_line,
)
from hutch.flows.backups.directory_walk import Found, open_readable, walk
from hutch.flows.backups.entry_writer import EntryWriter, GzipSink, PlainSink
from hutch.jail.pid_stamped_names import is_left_over, own_mark
from hutch.store.database_copy import copy_database, is_erased, open_copy
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass

MAX_ATTEMPTS = 5  # to copy the database with all its blobs, while payloads are being erased
SETTINGS_NAMES = ("config.toml", "personas", "extensions.json", "hooks.json", "approvals.json")
LOGIN = "login.json"  # has a token for another server
PREFIX = "backup-"


class Progress(NamedTuple):
    """The present step of a backup or a restoration."""

    step: str
    files: int
    bytes: int


OnProgress = Callable[[Progress], None]  # may raise to stop


@dataclass(frozen=True, slots=True)
class Installation:
    """The directories of an installation."""

    data: Path
    settings: Path  # the directory of config.toml

    @property
    def database(self) -> Path:
        return self.data / "hutch.db"


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A backup that was written."""

    about: About
    manifest: Manifest
    size: int


def write_backup(
    installation: Installation, file: IO[bytes], *, gzip: bool, keys: bool, on_progress: OnProgress
) -> Written:
    """Write a backup of an installation to a file or pipe. Blocks the thread."""
    if not installation.database.exists():
        raise NotFound(f"There is no installation in {installation.data}, so there is nothing to back up.")
    sink = GzipSink(file) if gzip else PlainSink(file)
    with ExitStack() as stack:
        scratch = stack.enter_context(_scratch(installation.data))
        schema, created_ms = _copy_records(installation, scratch, on_progress)
        listing = stack.enter_context(tempfile.TemporaryFile(dir=scratch))
        state = Progress("Copying files", 0, 0)

        def on_bytes(count: int) -> None:
            nonlocal state
            state = Progress(state.step, writer.files, state.bytes + count)
            on_progress(state)

        writer = EntryWriter(sink, listing, on_bytes)
        about = About(
            hutch=hutch.__version__, schema=schema, created_ms=created_ms, uid=os.geteuid(), keys=keys
        )
        writer.text(ABOUT, about.to_json(), listed=False)
        _write_records(writer, scratch)
        _write_data(writer, installation.data, keys=keys)
        _write_settings(writer, installation.settings, keys=keys)
        manifest = _write_lists(writer, scratch, listing, about)
        writer.end()
    return Written(about=about, manifest=manifest, size=sink.written)


@contextmanager
def _scratch(data: Path) -> Iterator[Path]:
    """A private directory on the disk of the installation; those of killed processes are removed."""
    place = data / "backups"
    place.mkdir(mode=0o700, exist_ok=True)
    for left in place.glob(f"{PREFIX}*"):
        if is_left_over(left.name.removeprefix(PREFIX).partition("-")[0]):
            shutil.rmtree(left)
    scratch = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{own_mark()}-", dir=place))
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch)


def _copy_records(installation: Installation, scratch: Path, on_progress: OnProgress) -> tuple[str, int]:
    """Copy the database, and hold the blobs that the copy names; returns its schema revision and its time."""
    copy, blobs = scratch / "hutch.db", scratch / "blobs"

    def on_pages(done: int, total: int) -> None:
        on_progress(Progress(f"Copying the database ({done * 100 // max(total, 1)} %)", 0, 0))

    for _ in range(MAX_ATTEMPTS):
        copy.unlink(missing_ok=True)
        if blobs.exists():
            shutil.rmtree(blobs)
        created_ms = wall_ms()
        schema = copy_database(installation.database, copy, on_pages)
        missing = _hold_blobs(installation.data / "blobs", copy, blobs, on_progress)
        if not any(is_erased(installation.database, name) for name in missing):
            return schema, created_ms  # what is missing was lost before, and its log does not verify
    raise Conflict("Payloads are being erased faster than they are copied. Try again when that is over.")


def _hold_blobs(source: Path, copy: Path, target: Path, on_progress: OnProgress) -> list[str]:
    """Give the blobs of the copy a second name; returns the names of those that are missing."""
    missing, made = [], set[str]()
    target.mkdir(mode=0o700)
    with open_copy(copy) as records:
        for count, name in enumerate(records.blobs()):
            on_progress(Progress("Collecting blobs", count, 0))
            if name[:2] not in made:
                (target / name[:2]).mkdir(mode=0o700)
                made.add(name[:2])
            try:
                _link(source / name[:2] / name, target / name[:2] / name)
            except FileNotFoundError:
                missing.append(name)
    return missing


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
            raise
        shutil.copyfile(source, target)  # a file system without hard links


def _write_records(writer: EntryWriter, scratch: Path) -> None:
    """Write the database and its blobs, as files of the data directory."""
    root = os.open(scratch, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        writer.add(Found(DATA, root, b".", os.fstat(root)))
        _write_file(writer, DATABASE, root, b"hutch.db")
        blobs = os.open("blobs", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=root)
        try:
            writer.add(Found(BLOBS, blobs, b".", os.fstat(blobs)))
            for found in walk(blobs, BLOBS, lambda _: True, _raise):
                writer.add(found)
        finally:
            os.close(blobs)
    finally:
        os.close(root)


def _write_data(writer: EntryWriter, data: Path, *, keys: bool) -> None:
    """Write everything else in the data directory."""

    def is_included(path: bytes) -> bool:
        return is_copied(path) and (keys or path != KEYS)

    def on_error(path: bytes, error: OSError) -> None:
        writer.problems.append((path, error.strerror or str(error)))

    root = os.open(data, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        for found in walk(root, DATA, is_included, on_error):
            writer.add(found)
    finally:
        os.close(root)


def _write_settings(writer: EntryWriter, settings: Path, *, keys: bool) -> None:
    """Write the settings; links are followed, because users keep such files elsewhere."""
    if not settings.is_dir():
        return
    root = os.open(settings, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        writer.add(Found(SETTINGS, root, b".", os.fstat(root)))
        for name in (*SETTINGS_NAMES, LOGIN) if keys else SETTINGS_NAMES:
            top = settings / name
            below = sorted(top.rglob("*")) if top.is_dir() else []
            for path in (top, *below):
                inside = SETTINGS + b"/" + os.fsencode(path.relative_to(settings))
                if path.is_dir():
                    writer.add(Found(inside, root, os.fsencode(path), path.stat()))
                elif path.is_file():
                    _write_file(writer, inside, root, os.fsencode(path.resolve()))
    finally:
        os.close(root)


def _write_file(writer: EntryWriter, path: bytes, parent: int, name: bytes) -> None:
    fd = open_readable(name, 0, parent)
    try:
        writer.file(Found(path, parent, name, os.fstat(fd), fd))
    finally:
        os.close(fd)


def _write_lists(writer: EntryWriter, scratch: Path, listing: IO[bytes], about: About) -> Manifest:
    """Write the lists of logs and files, and the manifest."""
    events = 0
    with tempfile.TemporaryFile(dir=scratch) as heads, open_copy(scratch / "hutch.db") as records:
        logs = 0
        for head in records.heads():
            logs, events = logs + 1, events + head.events
            heads.write(log_line(head))
        logs_sha256 = writer.spool(LOGS, heads)
        unfinished = records.unfinished_runs()
    problems = [*writer.problems, *((path, "it changed while it was read") for path in writer.changed)]
    manifest = Manifest(
        files=writer.files,
        content_bytes=writer.bytes,
        logs=logs,
        events=events,
        unfinished_runs=unfinished,
        omitted=len(writer.problems),
        changed=len(writer.changed),
        named={path.decode("utf-8", "replace"): reason for path, reason in problems[:MAX_NAMED]},
        files_sha256=writer.spool(FILES, listing),
        logs_sha256=logs_sha256,
    )
    writer.text(MANIFEST, manifest.to_json(about), listed=False)
    return manifest


def _raise(path: bytes, error: OSError) -> None:
    raise error
