"""One file that is open in editors: its shared text, the people at it, and the file on disk."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import structlog

from hutch.domain.errors import BadRequest, Conflict, HutchError, LimitReached, NotFound
from hutch.sessions.collaborative_editing.document_file_reader import (
    MAX_FILE_BYTES,
    Call,
    FileText,
    hash_of,
    read_file,
)
from hutch.sessions.collaborative_editing.shared_text import SharedText
from hutch.sessions.collaborative_editing.text_difference import find_replacements
from hutch.sessions.collaborative_editing.update_journal import AUTHOR, UPDATE, WRITE, Header, Journal, Record
from hutch.sessions.file_and_command_requests import WriteFile
from hutch.system.uncancellable_work import run_to_end

logger = structlog.get_logger("hutch.documents")
MAX_HISTORY_BYTES = 32 * 1024 * 1024  # of updates since the document was opened
SAVE_AFTER_S, SAVE_WITHIN_S = 2.0, 10.0  # after the last key; at the latest during further typing
SHA256_CHARS = 64
MAX_ATTEMPTS = 5  # to save while programs change the same file
Version = tuple[str, bytes]
"""The author, and the updates since the last save up to the end of theirs."""
SAVE_AT_VERSIONS, MAX_VERSIONS = 10, 100  # of several authors who take turns before a save


class Peer(Protocol):
    """One editor at a document."""

    user_id: str

    def receive(self, document: "OpenDocument", update: bytes) -> None:
        """Apply an update of another author."""
        ...

    def notify(self, document: "OpenDocument", kind: str, **fields: Any) -> None:
        """Take news about the document: `saved`, `unsaved`, `deleted`."""
        ...


class OpenDocument:
    """Made by `open`. All methods run in the event loop."""

    def __init__(self, path: str, text: SharedText, journal: Journal, call: Call) -> None:
        self.path = path
        self.peers: set[Peer] = set()
        self._text, self._journal, self._call = text, journal, call
        self._author = ""  # of the last edit
        self._versions: list[
            tuple[str, bytes]
        ] = []  # unsaved ones before it: the author, all unsaved updates
        self._written: dict[str, bytes] = {}  # hashes of versions that may be on disk: the updates in them
        self._saving: asyncio.Task[None] | None = None
        self._save_timer: asyncio.TimerHandle | None = None
        self._oldest_unsaved: float | None = None
        self._disk_lock = asyncio.Lock()  # held while the file is read or written

    @classmethod
    async def open(cls, path: str, place: Path, call: Call, *, by: str) -> "OpenDocument":
        """Read the file, and what was typed and not saved before this process was started."""
        found = await read_file(path, call, by)
        kept = await asyncio.to_thread(Journal.open, place)
        if kept is not None:
            journal, records = kept
            text = _restored_text(records)
            is_small = journal.size < MAX_HISTORY_BYTES
            if text is not None and is_small and journal.header.newline == found.newline:
                made = cls(path, text, journal, call)
                made._written = _written_versions(records)
                made._author, made._versions = _authors(records)
                if journal.header.sha256 != found.sha256:
                    await made._merge(found)
                if not text.is_saved:
                    made._author = made._author or by
                    made._save_soon()
                return made
            journal.close()
        text = SharedText.of(found.text)
        header = Header(secrets.token_hex(8), path, found.sha256, found.newline)
        journal = await asyncio.to_thread(Journal.create, place, header, text.saved_state())
        return cls(path, text, journal, call)

    @property
    def epoch(self) -> str:
        return self._journal.header.epoch

    @property
    def state(self) -> bytes:
        return self._text.state

    def updates_since(self, state: bytes | None = None) -> bytes:
        return self._text.updates_since(state)

    def edit(self, peer: Peer, update: bytes) -> None:
        """Apply a user's update: it is on disk before anyone else sees it."""
        if self._journal.size + len(update) > MAX_HISTORY_BYTES:
            raise LimitReached(
                f"'{self.path}' was edited too much at once. Close it in all windows and open it again.",
                limit="document history",
            )
        if peer.user_id != self._author:
            self._begin_version(peer.user_id)
        self._text.apply(update)
        self._journal.add(update)
        for other in self.peers - {peer}:
            other.receive(self, update)
        self._save_soon()

    def _begin_version(self, author: str) -> None:
        """Keep the unsaved text of the last author as a version of its own: it is recorded as theirs."""
        if not self._text.is_saved:
            if len(self._versions) >= MAX_VERSIONS:
                raise LimitReached(
                    f"Too many people take turns in '{self.path}'. Your text is sent again in a moment.",
                    limit="document authors",
                )
            self._versions.append((self._author, self._text.unsaved()))
            if len(self._versions) == SAVE_AT_VERSIONS:
                self._start_saving()
        self._author = author
        self._journal.add(author.encode(), AUTHOR)

    # --- the file on disk ---

    def _save_soon(self) -> None:
        loop = asyncio.get_running_loop()
        if self._oldest_unsaved is None:
            self._oldest_unsaved = loop.time()
        if self._save_timer is not None:
            self._save_timer.cancel()
        at = min(loop.time() + SAVE_AFTER_S, self._oldest_unsaved + SAVE_WITHIN_S)
        self._save_timer = loop.call_at(at, self._start_saving)

    def _start_saving(self) -> None:
        self._save_timer = None
        if self._saving is None:
            self._saving = asyncio.ensure_future(self.save(self._author))
            self._saving.add_done_callback(self._saved)

    def _saved(self, task: asyncio.Task[None]) -> None:
        self._saving = None
        if not task.cancelled() and (error := task.exception()) is not None:
            if not isinstance(error, HutchError):
                logger.error("document.not_saved", path=self.path, error=repr(error))
            self._notify_peers("unsaved", detail=str(error))

    async def save(self, by: str) -> None:
        """Write the text to the file, as a version of each of its authors; `by` is the author of a text that
        has no other. A version that a program wrote meanwhile is merged first."""
        await run_to_end(self._save(by))

    async def _save(self, by: str) -> None:
        async with self._disk_lock:
            while self._versions:
                author, updates = self._versions[0]
                await self._save_version(updates, author)
                self._versions.pop(0)
            await self._save_version(None, self._author or by)

    async def _save_version(self, updates: bytes | None, by: str) -> None:
        """Save the updates of the first version, or those of the last author."""
        for _ in range(MAX_ATTEMPTS):
            unsaved = self._text.unsaved() if updates is None else updates
            text = self._text.text if updates is None else self._text.text_after(updates)
            if updates is None:
                self._oldest_unsaved = None
            if text == self._text.text_on_disk and self._journal.header.sha256 is not None:
                return
            sha256 = hash_of(self._encoded(text))
            self._written[sha256] = unsaved
            self._journal.add(sha256.encode() + (updates or b""), WRITE)
            try:
                await self._write(text, by)
            except (Conflict, NotFound):  # changed or deleted by another author since
                await self._merge(await read_file(self.path, self._call, by))
                if updates is None and self._versions:
                    return  # another author has begun: the rest is saved with theirs, soon
                continue
            self._text.mark_saved(unsaved)
            self._restart_journal(sha256)
            self._notify_peers("saved", sha256=self._journal.header.sha256)
            return
        raise Conflict(f"'{self.path}' keeps changing. It is saved as soon as that ends; nothing is lost.")

    async def _write(self, text: str, by: str) -> None:
        header, data = self._journal.header, self._encoded(text)
        if len(data) > MAX_FILE_BYTES:
            raise LimitReached(
                f"'{self.path}' is larger than {MAX_FILE_BYTES >> 20} MiB now, and is not saved. Shorten it.",
                limit="document size",
            )
        await self._call(WriteFile(self.path, data, header.sha256, create=header.sha256 is None), by)

    async def refresh(self, by: str) -> None:
        """Merge the file as it is on disk now."""
        async with self._disk_lock:
            found = await read_file(self.path, self._call, by)
            if found.sha256 != self._journal.header.sha256:
                await self._merge(found)

    async def _merge(self, found: FileText) -> None:
        """Take over the version on disk. The text of a deleted file stays, and is written when somebody edits
        it."""
        if found.sha256 is None:
            self._restart_journal(None)
            self._notify_peers("deleted")
            return
        if (ours := self._written.get(found.sha256)) is not None:  # it was saved, but not noted
            self._text.mark_saved(ours)
            self._restart_journal(found.sha256)
            return
        replacements = await asyncio.to_thread(find_replacements, self._text.text_on_disk, found.text)
        update = self._text.change_on_disk(replacements)
        self._restart_journal(found.sha256)
        for peer in self.peers:
            peer.receive(self, update)

    def _restart_journal(self, sha256: str | None) -> None:
        """Begin a new journal with the text on disk, and keep unsaved text."""
        old, unsaved = self._journal, self._text.unsaved()
        header, saved = replace(old.header, sha256=sha256), self._text.saved_state()
        self._journal = Journal.create(old.place, header, saved)
        for author, updates in (*self._versions, (self._author, unsaved)):
            self._journal.add(author.encode(), AUTHOR)
            self._journal.add(updates)
        self._written.clear()
        old.close()

    def _encoded(self, text: str) -> bytes:
        return text.replace("\n", self._journal.header.newline).encode()

    def _notify_peers(self, kind: str, **fields: Any) -> None:
        for peer in self.peers:
            peer.notify(self, kind, **fields)

    @property
    def has_unsaved_text(self) -> bool:
        return bool(self._author) and not self._text.is_saved

    async def save_unsaved(self) -> None:
        """Write what was typed since the last save. Text that cannot be written stays in the journal."""
        if not self.has_unsaved_text:
            return
        try:
            await self.save(self._author)
        except HutchError as error:
            logger.warning("document.not_saved", path=self.path, error=str(error))

    async def close(self) -> None:
        """Save unsaved text, and release the file."""
        if self._save_timer is not None:
            self._save_timer.cancel()
        if self._saving is not None:
            await asyncio.wait([self._saving])
        await self.save_unsaved()
        self._journal.close()


def _restored_text(records: Sequence[Record]) -> SharedText | None:
    """None if the journal has updates that are refused today."""
    saved, *updates = [data for kind, data in records if kind == UPDATE]
    try:
        return SharedText.restored(saved, updates)
    except BadRequest:
        return None


def _authors(records: Sequence[Record]) -> tuple[str, list[Version]]:
    """The author of the last updates, and the versions before."""
    from pycrdt import merge_updates

    author, versions = "", list[Version]()
    updates: list[bytes] = []
    for kind, data in records[1:]:  # the first is the saved state
        if kind == UPDATE:
            updates.append(data)
        elif kind == AUTHOR and (next_author := data.decode()) != author:
            if author and updates:
                versions.append((author, merge_updates(*updates)))
            author = next_author
    return author, versions


def _written_versions(records: Sequence[Record]) -> dict[str, bytes]:
    """The versions that a process was about to write, with the updates that each contains: those of the
    record itself, or all before it."""
    from pycrdt import merge_updates

    found: dict[str, bytes] = {}
    updates: list[bytes] = []
    for kind, data in records:
        if kind == UPDATE:
            updates.append(data)
        elif kind == WRITE:
            sha256, own = data[:SHA256_CHARS].decode(), data[SHA256_CHARS:]
            found[sha256] = own or merge_updates(*updates)
    return found
