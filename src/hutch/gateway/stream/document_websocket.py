"""All documents of a client over one WebSocket: updates as bytes, everything else as JSON texts.

`/api/v1/sessions/{id}/documents/socket`. A client numbers the files that it opens. A binary frame is that
number, in four bytes, and a Yjs update. See docs/streams.md.
"""

import asyncio
import base64
import binascii
import time
from contextlib import AsyncExitStack
from typing import Any

from starlette.types import Receive, Scope, Send

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, TooManyRequests
from hutch.domain.one_line_text import echo
from hutch.domain.relative_path import parse_path
from hutch.gateway.stream.event_and_input_websocket import close, refuse, text
from hutch.gateway.stream.open_streams import DISCONNECTED, SLOW, Ending, Stream, streams_of
from hutch.gateway.stream.sse_and_websocket_frames import (
    control_frame,
    error_frame,
    parse_frame,
    parse_number,
)
from hutch.gateway.stream.stream_permission import StreamGrant, grant_of, grant_stream
from hutch.sessions.collaborative_editing.open_document import OpenDocument
from hutch.sessions.file_and_command_requests import ReadFile, WriteFile
from hutch.system.lazy_dataclass import dataclass

MAX_FILES = 50  # of one client
MAX_NUMBER = 2**31
MAX_UPDATE_BYTES = 1 << 20
MAX_UNSENT_BYTES = 16 << 20
MESSAGE_BYTES = 200  # that a message takes besides its content
MAX_POSITION_CHARS = 2000
COUNTED_S = 0.002  # of work for an edit: they count as one request
NUMBER_BYTES = 4


class DocumentSocket:
    """The route, as plain ASGI."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            allowed = await grant_stream(scope, scope["path_params"]["session_id"], action="edit")
            if not allowed.writes:
                raise Denied("Documents are for people who may work in the session. Read its files instead.")
        except HutchError as error:
            await refuse(scope, receive, send, error)
            return
        await receive()
        async with streams_of(scope["app"]).open(allowed, send) as stream, AsyncExitStack() as files:
            await stream.put({"type": "websocket.accept"})
            connection = Connection(stream, stream.confirmed(receive), files)
            await stream.put(text(control_frame("hello", peer=connection.id)))
            try:
                ending = await stream.run(connection.send_frames(), connection.receive_frames())
            finally:
                connection.hide_cursors()
            await close(stream, ending, 0)


@dataclass(slots=True)
class _File:
    number: int
    document: OpenDocument
    leave: AsyncExitStack
    refused: str = ""  # why the user may not write it; empty if they may
    checked_at: int = -1  # the renewal of the client's access after which this was found out
    position: dict[str, Any] | None = None  # of the cursor


class Connection:
    """One client and the files that it has open. It is the peer at all of them."""

    _last_id = 0

    def __init__(self, stream: Stream, receive: Receive, files: AsyncExitStack) -> None:
        Connection._last_id += 1
        self.id = Connection._last_id
        user = grant_of(stream).caller.user
        self.user_id: str = user.id
        self.name = user.name
        self._stream, self._receive, self._all = stream, receive, files
        self._files: dict[int, _File] = {}
        self._unsent: list[dict[str, Any]] = []
        self._unsent_bytes = 0
        self._wake = asyncio.Event()
        stream.heartbeat = self._heartbeat
        self._renewals = 0
        stream.renewed = self._note_renewal

    @property
    def _grant(self) -> StreamGrant:
        return grant_of(self._stream)

    # --- as a peer of documents ---

    def receive(self, document: OpenDocument, update: bytes) -> None:
        for file in self._files_of(document):
            self._put_bytes(file.number, update)

    def notify(self, document: OpenDocument, kind: str, **fields: Any) -> None:
        for file in self._files_of(document):
            self._put(kind, document=file.number, **fields)

    def _files_of(self, document: OpenDocument) -> list[_File]:
        return [file for file in self._files.values() if file.document is document]

    # --- to the client ---

    def _put(self, kind: str, **fields: Any) -> None:
        self._put_text(control_frame(kind, **fields))

    def _put_error(self, error: HutchError, number: int | None) -> None:
        redact = self._stream.grant.server.redactor.redact
        self._put_text(error_frame(error, redact, document=number))

    def _put_text(self, frame: str) -> None:
        self._queue(text(frame), 4 * len(frame) + MESSAGE_BYTES)  # a character takes up to 4 bytes

    def _put_bytes(self, number: int, update: bytes) -> None:
        data = number.to_bytes(NUMBER_BYTES) + update
        self._queue({"type": "websocket.send", "bytes": data}, len(data) + MESSAGE_BYTES)

    def _queue(self, message: dict[str, Any], size: int) -> None:
        self._unsent.append(message)
        self._unsent_bytes += size
        if self._unsent_bytes > MAX_UNSENT_BYTES:
            self._stream.end(SLOW)
        self._wake.set()

    async def send_frames(self) -> Ending:
        while True:
            await self._wake.wait()
            self._wake.clear()
            messages, self._unsent, self._unsent_bytes = self._unsent, [], 0
            for message in messages:
                await self._stream.put(message)

    async def _heartbeat(self) -> None:
        self._put("heartbeat")
        for file in list(self._files.values()):
            try:
                await self._check(file)
            except HutchError as error:
                self._put_error(error, file.number)

    # --- from the client ---

    async def receive_frames(self) -> Ending:
        while True:
            message = await self._receive()
            if message["type"] == "websocket.disconnect":
                return DISCONNECTED
            number: int | None = None
            try:
                data = message.get("bytes")
                if data is not None:
                    number = int.from_bytes(data[:NUMBER_BYTES])
                    file = self._file(number)
                    if file.checked_at != self._renewals:  # shares or policies may have changed
                        await self._check(file)
                        await self._stream.confirm()
                    started = time.monotonic()
                    try:
                        self._edit(file, data[NUMBER_BYTES:])
                    finally:
                        await self._count_work(time.monotonic() - started)
                    continue
                frame = parse_frame(message["text"])
                if frame["type"] == "ping":
                    self._put("pong")
                    continue
                number = parse_number(frame, "document", 0, MAX_NUMBER)
                await self._handle(frame, number)
            except HutchError as error:
                self._put_error(error, number)

    async def _handle(self, frame: dict[str, Any], number: int) -> None:
        match frame["type"]:
            case "open":
                self._grant.count()
                await self._open(number, frame)
            case "close":
                await self._close(self._file(number))
            case "save":
                self._grant.count()
                file = self._writable(self._file(number))
                await file.document.save(self.user_id)
            case "cursor":
                self._move_cursor(self._file(number), frame.get("position"))
            case other:
                raise BadRequest(
                    f"There is no frame {echo(other, 40)} here; there are open, close, save, cursor and ping."
                )

    def _file(self, number: int) -> _File:
        if number not in self._files:
            raise BadRequest(f"No file has the number {number}. Open it first.")
        return self._files[number]

    async def _open(self, number: int, frame: dict[str, Any]) -> None:
        if number in self._files:
            raise BadRequest(f"The number {number} is in use. Close that file first.")
        if len(self._files) >= MAX_FILES:
            raise LimitReached(f"{MAX_FILES} files are open here. Close some.", limit="documents")
        path, state = parse_path(_string(frame, "path")), _state(frame)
        if any(file.document.path == path for file in self._files.values()):
            raise BadRequest(f"The file {echo(path, 80)} is open here already.")
        host, session_id = self._grant.server.host, self._grant.session.id
        leave = await self._all.enter_async_context(AsyncExitStack())
        document = await leave.enter_async_context(host.document(session_id, path, self))
        file = self._files[number] = _File(number, document, leave)
        await self._check(file)
        refused = file.refused
        same = frame.get("epoch") == document.epoch
        self._put(
            "opened",
            document=number,
            path=path,
            epoch=document.epoch,
            state=base64.b64encode(document.state).decode(),
            writes=not refused,
            reason=refused,
        )
        self._put_bytes(number, document.updates_since(state if same else None))
        for other in document.peers:
            if isinstance(other, Connection) and other is not self:
                for theirs in other._files_of(document):
                    self._show_cursor(file, other, theirs.position)

    def _note_renewal(self) -> None:
        """Have each file checked before its next edit. That is every few seconds, and at once when shares or
        policies change."""
        self._renewals += 1

    async def _check(self, file: _File) -> None:
        """Close a file that the user may not read any more, and note why they may not write it."""
        renewals = self._renewals  # there may be more meanwhile
        host, session_id, path = self._grant.server.host, self._grant.session.id, file.document.path
        try:
            await host.check(session_id, ReadFile(path), by=self.user_id)
        except Denied:
            await self._close(file)
            raise
        try:
            await host.check(session_id, WriteFile(path, b""), by=self.user_id)
            file.refused = ""
        except Denied as error:
            file.refused = str(error)
        file.checked_at = renewals

    async def _close(self, file: _File) -> None:
        del self._files[file.number]
        self._send_cursor(file, None)
        await file.leave.aclose()

    def _writable(self, file: _File) -> _File:
        if not self._grant.writes:
            raise Denied("You may only watch this session now.")
        if file.refused:
            raise Denied(file.refused)
        return file

    def _edit(self, file: _File, update: bytes) -> None:
        if len(update) > MAX_UPDATE_BYTES:
            raise BadRequest(f"An update has at most {MAX_UPDATE_BYTES >> 20} MiB. Send several.")
        self._writable(file).document.edit(self, update)

    async def _count_work(self, seconds: float) -> None:
        """Make a client wait whose edits take the server much time: nobody else is served during an edit."""
        counted = 0
        while counted < seconds // COUNTED_S:
            try:
                self._grant.count()
                counted += 1
            except TooManyRequests as error:
                await asyncio.sleep(error.retry_after_s)

    # --- cursors ---

    def _move_cursor(self, file: _File, position: Any) -> None:
        if position is not None and not isinstance(position, dict):
            raise BadRequest("`position` is an object, or null.")
        if len(str(position)) > MAX_POSITION_CHARS:
            raise BadRequest(f"`position` has at most {MAX_POSITION_CHARS} characters.")
        file.position = position
        self._send_cursor(file, position)

    def hide_cursors(self) -> None:
        """Remove them at all others: this client has left, perhaps without a word."""
        for file in self._files.values():
            self._send_cursor(file, None)

    def _send_cursor(self, file: _File, position: dict[str, Any] | None) -> None:
        for other in file.document.peers:
            if isinstance(other, Connection) and other is not self:
                for theirs in other._files_of(file.document):
                    other._show_cursor(theirs, self, position)

    def _show_cursor(self, file: _File, other: "Connection", position: dict[str, Any] | None) -> None:
        who = {"peer": other.id, "user": other.user_id, "name": other.name}
        self._put("cursor", document=file.number, **who, position=position)


def _string(frame: dict[str, Any], name: str) -> str:
    value = frame.get(name)
    if not isinstance(value, str) or not value:
        raise BadRequest(f"`{name}` is a text.")
    return value


def _state(frame: dict[str, Any]) -> bytes | None:
    if frame.get("state") is None:
        return None
    try:
        return base64.b64decode(_string(frame, "state"), validate=True)
    except binascii.Error:
        raise BadRequest("`state` is a Yjs state vector in Base64.") from None
