"""The files of a session, on a server or in this process, for `hutch edit`."""

import hashlib
from collections.abc import AsyncGenerator
from typing import Any, Protocol

from hutch.cli.api_client import Client, path_of
from hutch.cli.local_session_client import LocalSessions
from hutch.cli.session_client import ServedSessions
from hutch.cli.session_event_stream import Update
from hutch.domain.errors import Conflict, NotFound
from hutch.domain.ids import SessionId
from hutch.sessions.file_and_command_requests import ReadFile, StatFile, WriteFile

CHUNK_BYTES = 1 << 20


class SessionFile(Protocol):
    """One file of a session."""

    async def read(self) -> bytes | None:
        """The content; None if there is no such file."""
        ...

    async def write(self, data: bytes, *, over: bytes | None) -> None:
        """Write the file over this content only, or create it (None); else raises Conflict."""
        ...

    def follow(self) -> AsyncGenerator[Update]:
        """The events of the session from now on."""
        ...


class ServedFile:
    """A file of a session on a server."""

    def __init__(self, client: Client, session: dict[str, Any], path: str) -> None:
        self._client, self._session = client, session
        self._url = f"/sessions/{session['id']}/files/{path_of(path)}"

    async def read(self) -> bytes | None:
        try:
            return bytes((await self._client.request("GET", self._url)).content)
        except NotFound:
            return None

    async def write(self, data: bytes, *, over: bytes | None) -> None:
        condition = {"If-None-Match": "*"} if over is None else {"If-Match": f'"{sha256(over)}"'}
        headers = {"Content-Type": "application/octet-stream", **condition}
        try:
            await self._client.request("PUT", self._url, content=data, headers=headers)
        except Conflict:
            # The response to an earlier attempt may have been lost.
            if await self.read() != data:
                raise

    def follow(self) -> AsyncGenerator[Update]:
        after = int((self._session["head"] or {}).get("seq", 0))
        return ServedSessions(self._client).follow(self._session["id"], after=after)


class LocalFile:
    """A file of a session in this process."""

    def __init__(self, sessions: LocalSessions, session: dict[str, Any], path: str) -> None:
        self._sessions, self._session, self._path = sessions, session, path
        self._host, self._by = sessions.local.host, str(sessions.local.caller.user.id)

    async def read(self) -> bytes | None:
        data, size = b"", 1
        try:
            while len(data) < size:
                part = await self._call(ReadFile(self._path, len(data), CHUNK_BYTES))
                data, size = data + part.data, part.size
                if not part.data:
                    break
        except NotFound:
            return None
        return data

    async def write(self, data: bytes, *, over: bytes | None) -> None:
        if over is not None and (await self._call(StatFile(self._path))).sha256 != sha256(over):
            raise Conflict(f"'{self._path}' has changed.")
        if_hash = None if over is None else sha256(over)
        await self._call(WriteFile(self._path, data, if_hash, create=over is None))

    def follow(self) -> AsyncGenerator[Update]:
        after = int((self._session["head"] or {}).get("seq", 0))
        return self._sessions.follow(self._session["id"], after=after)

    async def _call(self, request: Any) -> Any:
        return await self._host.call(SessionId(self._session["id"]), request, by=self._by)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
