"""The documents of a session: files that are open in editors, each only once, for everyone at them."""

import asyncio
import contextlib
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.domain.errors import HutchError, LimitReached
from hutch.domain.events import FileChanged, FilesChanged
from hutch.sessions.collaborative_editing.document_file_reader import Call
from hutch.sessions.collaborative_editing.open_document import OpenDocument, Peer

MAX_OPEN = 200  # in one session

Follow = Callable[[], AsyncGenerator[Any]]
"""Yields the entries of the session's log from now on."""


class Documents:
    """Reads the log of the session while documents are open, because programs change files too."""

    def __init__(self, place: Path, call: Call, follow: Follow) -> None:
        self._place, self._call, self._follow = place, call, follow
        self._open: dict[str, OpenDocument] = {}
        self._opening: dict[str, asyncio.Lock] = {}
        self._editors: Counter[str] = Counter()  # at each path, with those for whom it is being opened
        self._watching: asyncio.Task[None] | None = None

    @property
    def is_used(self) -> bool:
        return bool(self._editors)

    @property
    def has_unsaved_text(self) -> bool:
        return any(document.has_unsaved_text for document in self._open.values())

    @asynccontextmanager
    async def join(self, path: str, peer: Peer) -> AsyncIterator[OpenDocument]:
        """Open a file for an editor. The last one to leave saves it."""
        self._editors[path] += 1
        try:
            document = await self._opened(path, peer)
        except BaseException:
            self._forget(path)
            raise
        try:
            yield document
        finally:
            document.peers.discard(peer)
            await asyncio.shield(asyncio.ensure_future(self._leave(document)))

    async def save(self) -> None:
        """Write all unsaved text to the files, for programs that read them now."""
        for document in list(self._open.values()):
            await document.save_unsaved()

    async def _opened(self, path: str, peer: Peer) -> OpenDocument:
        async with self._opening.setdefault(path, asyncio.Lock()):
            document = self._open.get(path)
            if document is None:
                if len(self._open) >= MAX_OPEN:
                    raise LimitReached(
                        f"{MAX_OPEN} files are open in this session. Close some.", limit="documents"
                    )
                name = hashlib.sha256(path.encode(errors="surrogateescape")).hexdigest()[:32]
                document = await OpenDocument.open(path, self._place / name, self._call, by=peer.user_id)
                self._open[path] = document
                self._watch()
            document.peers.add(peer)
            return document

    async def _leave(self, document: OpenDocument) -> None:
        try:
            await self._close_unused(document)
        finally:
            self._forget(document.path)

    async def _close_unused(self, document: OpenDocument) -> None:
        async with self._opening[document.path]:
            if document.peers or self._open.get(document.path) is not document:
                return
            del self._open[document.path]
            await document.close()
        if not self._open and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    def _forget(self, path: str) -> None:
        """Note that an editor has left a path, or could not open it."""
        self._editors[path] -= 1
        if not self._editors[path]:
            del self._editors[path]
            self._opening.pop(path, None)

    def _watch(self) -> None:
        if self._watching is None or self._watching.done():
            self._watching = asyncio.ensure_future(self._read_log())

    async def _read_log(self) -> None:
        async with aclosing(self._follow()) as entries:
            async for entry in entries:
                match getattr(entry, "event", None):
                    case FileChanged(path=path, moved_from=source):
                        await self._refresh([path, *([source] if source else [])])
                    case FilesChanged():  # too many to be listed
                        await self._refresh(list(self._open))

    async def _refresh(self, paths: list[str]) -> None:
        for path in paths:
            document = self._open.get(path)
            if document is None or not document.peers:
                continue
            peer = next(iter(document.peers))
            with contextlib.suppress(HutchError):  # it is no text any more: saving says so
                await document.refresh(peer.user_id)
