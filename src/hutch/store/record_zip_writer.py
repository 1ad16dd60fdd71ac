"""Writes a log as a record: one file that a third party can verify.

The same log gives the same bytes. The file appears under its name only when it
is complete and on disk; until then it is a draft beside it, which an error or a
cancellation removes. Events are written in chunks, so a long log needs no more
memory than a short one.
"""

import asyncio
import os
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import IO

from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.domain.ids import SessionId
from hutch.store.hash_chain import GENESIS, Record
from hutch.store.record_format import README, Manifest, event_line, keys_line, manifest_line, statement_line
from hutch.store.record_zip_reader import ZipMember, directory, header
from hutch.store.signed_log_head_statements import Statement

CHUNK_BYTES = 1024 * 1024


async def write_record(
    path: Path,
    *,
    session_id: SessionId,
    records: AsyncIterator[Record],
    statements: Sequence[Statement],
    public_keys: Mapping[str, bytes],
    overwrite: bool = False,
) -> None:
    """Write the record of a session to `path`, readable by its owner only.

    `statements` are those about the events in `records`; one of them must cover the last event, or the
    record does not verify.
    """
    for statement in statements:
        if statement.key not in public_keys:
            raise Unavailable(
                f"The {statement.kind} of event {statement.seq} is signed with key {statement.key}, whose "
                "public key the store does not hold. Add it to the store's public keys and export again."
            )
    draft = _Draft(path, overwrite=overwrite)
    try:
        await asyncio.to_thread(draft.open)
        await asyncio.to_thread(draft.add, "README.txt", README)
        manifest = await _write_events(draft, session_id, records)
        if not manifest.events and not statements:
            raise BadRequest(f"Session {session_id} has no events, so there is nothing to export.")
        await asyncio.to_thread(_write_rest, draft, statements, public_keys, manifest)
        await asyncio.to_thread(draft.commit)
    finally:
        # Shielded, and after the thread that may still be writing, so that no draft remains.
        await asyncio.shield(asyncio.to_thread(draft.discard))


async def _write_events(draft: "_Draft", session_id: SessionId, records: AsyncIterator[Record]) -> Manifest:
    await asyncio.to_thread(draft.begin, "events.ndjson")
    chunk, events, head = bytearray(), 0, GENESIS
    async for record in records:
        if record.session_id != session_id:
            raise ValueError(f"event {record.seq} of {record.session_id} in the record of {session_id}")
        chunk += event_line(record)
        events, head = events + 1, record.hash
        if len(chunk) >= CHUNK_BYTES:
            await asyncio.to_thread(draft.write, bytes(chunk))
            chunk.clear()
    await asyncio.to_thread(draft.write, bytes(chunk))
    return Manifest(session_id, events, head)


def _write_rest(
    draft: "_Draft", statements: Sequence[Statement], public_keys: Mapping[str, bytes], manifest: Manifest
) -> None:
    # Sorted by event, so that a verifier can read them in parallel with the events.
    lines = sorted((statement.seq, statement_line(statement)) for statement in statements)
    draft.add("statements.ndjson", b"".join(line for _, line in lines))
    draft.add("keys.json", keys_line(public_keys))
    draft.add("manifest.json", manifest_line(manifest))


class _Draft:
    """The unfinished zip. Used from threads, one of which may still run after a cancellation."""

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self._path = path
        self._overwrite = overwrite
        self._lock = Lock()
        self._closed = False
        self._draft: Path | None = None
        self._file: IO[bytes] | None = None
        self._member: _ZipMemberWriter | None = None
        self._packed: list[ZipMember] = []

    def open(self) -> None:
        with self._working():
            if self._path.is_dir():
                raise BadRequest(f"{self._path} is a directory. Give the path of a file in it.")
            self._refuse_to_overwrite()
            descriptor, draft = tempfile.mkstemp(prefix=".hutch-record-", dir=self._path.parent)
            self._draft = Path(draft)
            self._file = os.fdopen(descriptor, "wb")

    def add(self, name: str, content: bytes) -> None:
        self.begin(name)
        self.write(content)

    def begin(self, name: str) -> None:
        """Start the next file; `write` adds to it."""
        with self._working():
            assert self._file
            self._finish()
            self._member = _ZipMemberWriter(self._file, name)

    def write(self, content: bytes) -> None:
        with self._working():
            assert self._member
            self._member.write(content)

    def commit(self) -> None:
        """Sync the draft and rename it to its final name."""
        with self._working():
            assert self._file and self._draft
            self._finish()
            self._file.write(directory(self._packed))
            self._file.flush()
            os.fsync(self._file.fileno())
            self._file.close()
            self._name(self._draft)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def discard(self) -> None:
        """Remove the draft; a committed file stays."""
        with self._lock:
            self._closed = True
            if self._file:
                with suppress(OSError):  # the disk may be full, which may be the reason for the discard
                    self._file.close()
            if self._draft:
                self._draft.unlink(missing_ok=True)

    def _finish(self) -> None:
        if self._member:
            self._packed.append(self._member.finish())

    def _name(self, draft: Path) -> None:
        if not self._overwrite:
            try:
                self._path.hardlink_to(draft)  # unlike a rename, this never replaces a file
                draft.unlink()
                return
            except OSError:  # it exists; or the file system has no hard links
                self._refuse_to_overwrite()
        draft.replace(self._path)

    def _refuse_to_overwrite(self) -> None:
        if not self._overwrite and (self._path.exists() or self._path.is_symlink()):
            raise Conflict(f"{self._path} exists. Choose another name, or add --force to replace it.")

    @contextmanager
    def _working(self) -> Iterator[None]:
        with self._lock:
            if self._closed:
                raise RuntimeError("the draft was discarded")
            try:
                yield
            except FileNotFoundError:
                raise BadRequest(f"The folder {self._path.parent} does not exist. Create it first.") from None
            except OSError as error:
                raise Unavailable(
                    f"The record could not be written to {self._path} ({error.strerror}). "
                    "Choose another path or free some space."
                ) from None


class _ZipMemberWriter:
    """Writes one file of the zip. Its header comes first, but is known only at the end."""

    def __init__(self, target: IO[bytes], name: str) -> None:
        self._target = target
        self._packer = zlib.compressobj(wbits=-15)
        self._file = ZipMember(name, target.tell(), packed_bytes=0, size_bytes=0, checksum=0)
        target.write(header(self._file))

    def write(self, content: bytes) -> None:
        size_bytes = self._file.size_bytes + len(content)
        checksum = zlib.crc32(content, self._file.checksum)
        self._file = replace(self._file, size_bytes=size_bytes, checksum=checksum)
        self._target.write(self._packer.compress(content))

    def finish(self) -> ZipMember:
        self._target.write(self._packer.flush())
        file = replace(self._file, packed_bytes=self._target.tell() - self._file.start)
        self._target.seek(file.offset)
        self._target.write(header(file))
        self._target.seek(file.end)
        return file
