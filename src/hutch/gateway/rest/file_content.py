"""Reads and writes the content of files, with HTTP ranges and conditions."""

import asyncio
import hashlib
import hmac
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Annotated

from fastapi import Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.ids import SessionId
from hutch.flows.sessions import allowed, may_write
from hutch.gateway.auth.caller_dependency import Reader, Writer
from hutch.gateway.http_error_table import PreconditionFailed
from hutch.gateway.request_and_response_bodies import answer
from hutch.gateway.rest.base_route import router, server_of
from hutch.gateway.rest.files import FileChangeOut
from hutch.gateway.rest.ranges_and_conditions import Part, etag, matches, part_of
from hutch.gateway.rest.request_file_paths import FilePath
from hutch.sessions.file_and_command_requests import DeleteFile, ReadFile, StatFile, WriteFile
from hutch.sessions.interface import SessionHost
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.partial_read import Bytes

routes = router("files")

CHUNK_BYTES = 512 * 1024
OVERLAP_BYTES = 64 * 1024  # around a chunk: searched for secrets that cross its ends
BINARY = "application/octet-stream"
CONTENT = {BINARY: {"schema": {"type": "string", "format": "binary"}}}
SAFE = {  # browsers must not run a workspace's files
    "Content-Disposition": "attachment",
    "Content-Security-Policy": "sandbox; default-src 'none'",
    "Accept-Ranges": "bytes",
}
TAG_KEY = os.urandom(32)
Mask = Callable[[bytes], bytes]
Tags = Annotated[str | None, Header(max_length=4096)]


@routes.head("/sessions/{session_id}/files/{path:file}", include_in_schema=False)
@routes.get(
    "/sessions/{session_id}/files/{path:file}",
    operation_id="read_file",
    response_class=Response,
    responses={
        200: {"description": "The file.", "content": CONTENT},
        204: {"description": "There is no such file, and it was `optional`."},
        206: {"description": "A part.", "content": CONTENT},
        304: {"description": "The file has not changed."},
    },
)
async def read(
    request: Request,
    caller: Reader,
    session_id: str,
    path: FilePath,
    range: Annotated[str | None, Header(max_length=200, examples=["bytes=0-1023"])] = None,
    if_range: Tags = None,
    if_none_match: Tags = None,
    if_match: Tags = None,
    optional: Annotated[bool, Query(description="204 instead of 404 if there is no such file.")] = False,
) -> Response:
    """The content of a file, or a part of it. Its ETag is the SHA-256 of the returned content.

    For callers who may only read the session, each byte of a secret that the server knows becomes `*`.
    """
    services = server_of(request).services
    session = await allowed(services, caller, session_id)
    mask = None if await may_write(services, caller, session) else services.redactor.mask
    content = Content(services.host, session.id, path, caller.user.id, mask)
    try:
        sha256, size = await content.inspect()
    except NotFound:
        if not optional:
            raise
        return Response(status_code=204)
    tag = await content.tag(sha256)
    headers = {**SAFE, "ETag": etag(tag)}
    if if_match is not None and not matches(if_match, tag):
        raise PreconditionFailed(f"'{path}' does not match If-Match; its hash is {tag}.")
    if if_none_match is not None and matches(if_none_match, tag, weak=True):
        return Response(status_code=304, headers=headers)
    if if_range is not None and not matches(if_range, tag):
        range = None
    part = part_of(range, size)
    headers["Content-Length"] = str(part.end - part.start)
    if not part.whole:
        headers["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    code = 200 if part.whole else 206
    if request.method == "HEAD":
        return Response(status_code=code, headers=headers, media_type=BINARY)
    if content.data is not None:
        visible = await content.visible(content.data)
        return Response(visible[part.start : part.end], code, headers, BINARY)
    return StreamingResponse(content.chunks(part, sha256), code, headers, BINARY)


@dataclass(slots=True)
class Content:
    """Sends a file: a small one at once, a large one in chunks."""

    host: SessionHost
    session_id: SessionId
    path: str
    by: str
    mask: Mask | None = None  # hides secrets from callers who may only read
    data: bytes | None = None  # the whole file, if it is small

    async def inspect(self) -> tuple[str, int]:
        """The hash and the size of the file."""
        first = await self._read(0, CHUNK_BYTES)
        if first.size <= len(first.data):
            self.data = first.data
            return hashlib.sha256(first.data).hexdigest(), len(first.data)
        status = await self.host.call(self.session_id, StatFile(self.path), by=self.by)
        return status.sha256 or "", first.size

    async def tag(self, sha256: str) -> str:
        """The entity tag of the visible content. The hash of hidden content would confirm a guess."""
        if self.mask is None:
            return sha256
        if self.data is not None:
            return hashlib.sha256(await self.visible(self.data)).hexdigest()
        # Masking a large file takes long, so its hash is keyed instead.
        return hmac.new(TAG_KEY, sha256.encode(), hashlib.sha256).hexdigest()

    async def chunks(self, part: Part, sha256: str) -> AsyncIterator[bytes]:
        """The bytes of a part. If the file changes meanwhile, the connection is aborted before the end."""
        at, digest = part.start, hashlib.sha256()
        while at < part.end:
            length = min(CHUNK_BYTES, part.end - at)
            data = (await self._read(at, length)).data
            visible = data if self.mask is None else await self._masked(at, len(data))
            at += len(data)
            if part.whole:
                await asyncio.to_thread(digest.update, data)
            over = at >= part.end
            if not data or (over and part.whole and digest.hexdigest() != sha256):
                raise Conflict(f"'{self.path}' changed while it was read.")
            yield visible

    async def part(self, start: int, length: int) -> Bytes:
        """A part that is sent at once, as this caller may see it."""
        found = await self._read(start, length)
        if self.mask is None:
            return found
        return replace(found, data=await self._masked(found.start, len(found.data)))

    async def visible(self, data: bytes) -> bytes:
        """The content as this caller may see it."""
        return data if self.mask is None else await asyncio.to_thread(self.mask, data)

    async def _masked(self, start: int, length: int) -> bytes:
        """A chunk of a large file, masked with its surroundings: a secret may cross its ends."""
        first = max(0, start - OVERLAP_BYTES)
        data = (await self._read(first, start - first + length + OVERLAP_BYTES)).data
        return (await self.visible(data))[start - first :][:length]

    async def _read(self, start: int, length: int) -> Bytes:
        return await self.host.call(self.session_id, ReadFile(self.path, start, length), by=self.by)


@routes.put(
    "/sessions/{session_id}/files/{path:file}",
    operation_id="write_file",
    response_model=FileChangeOut,
    responses={201: {"description": "Created.", "model": FileChangeOut}},
    openapi_extra={"requestBody": {"required": True, "content": CONTENT}},
)
async def write(
    request: Request,
    caller: Writer,
    session_id: str,
    path: FilePath,
    if_match: Tags = None,
    if_none_match: Tags = None,
) -> Response:
    """Write the content of a file, and create the directories above it.

    `If-Match` allows it only over that content; `If-None-Match: *` only if there is no file.
    """
    services = server_of(request).services
    session = await allowed(services, caller, session_id, "input")
    if_hash: str | None = None
    if if_match is not None or (if_none_match is not None and if_none_match.strip() != "*"):
        if_hash = await _hash_now(services.host, session.id, path, caller.user.id)
        if if_match is not None and not matches(if_match, if_hash):
            raise PreconditionFailed(f"'{path}' does not match If-Match.")
        if if_none_match is not None and matches(if_none_match, if_hash, weak=True):
            raise PreconditionFailed(f"'{path}' matches If-None-Match.")
    create = if_none_match is not None and (if_none_match.strip() == "*" or if_hash is None)
    data = await request.body()
    try:
        change = await services.host.call(
            session.id, WriteFile(path, data, if_hash, create), by=caller.user.id
        )
    except (Conflict, NotFound) as error:
        if create or if_hash is not None:
            raise PreconditionFailed(str(error)) from None
        raise
    headers = {"ETag": etag(change.after)} if change.after else {}
    return answer(change, 201 if change.kind == "created" else 200, headers)


async def _hash_now(host: SessionHost, session_id: SessionId, path: str, by: str) -> str | None:
    try:
        return (await host.call(session_id, StatFile(path), by=by)).sha256
    except NotFound:
        return None


@routes.delete(
    "/sessions/{session_id}/files/{path:file}",
    operation_id="delete_file",
    response_model=list[FileChangeOut],
)
async def delete(
    request: Request, caller: Writer, session_id: str, path: FilePath, if_match: Tags = None
) -> Response:
    """Remove a file, a symbolic link, or a directory with its contents."""
    services = server_of(request).services
    session = await allowed(services, caller, session_id, "input")
    if if_match is not None:
        now = await _hash_now(services.host, session.id, path, caller.user.id)
        if not matches(if_match, now):
            raise PreconditionFailed(f"'{path}' does not match If-Match.")
    return answer(await services.host.call(session.id, DeleteFile(path), by=caller.user.id))
