"""The open streams of a server.

A stream ends when its session ends, its client disconnects, the server stops, its caller
loses access, or its client does not read. Nothing is buffered for slow clients: they
reconnect and resume from their position. One task checks all streams.
"""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol, cast

import structlog
from starlette.types import Message, Receive
from uvicorn.protocols.utils import ClientDisconnected

from hutch.domain.errors import Denied, HutchError, NotFound
from hutch.domain.session import Session
from hutch.gateway.auth.access_loss_notifier import CHECKED_AT, AccessChanges
from hutch.gateway.gateway_context import Server
from hutch.gateway.stream.abortable_uvicorn_protocols import abort_of
from hutch.gateway.stream.access_recheck import AccessConfirmation
from hutch.store.sessions import Sessions
from hutch.system.lazy_dataclass import dataclass
from hutch.system.task_cancellation import cancel_and_wait

TICK_INTERVAL_S = 0.5
DISCONNECTS = (ClientDisconnected, ConnectionError)  # the client has disconnected
HEARTBEAT_INTERVAL_S = 15.0
RENEW_INTERVAL_S = 3.0
MAX_UNCONFIRMED_S = 30.0  # for which a stream continues if access cannot be checked

Send = Callable[[Any], Awaitable[None]]
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a stream ended; `code` closes a WebSocket."""

    name: str
    code: int
    reason: str


class Grant(Protocol):
    """A caller's permission to stream a session."""

    @property
    def server(self) -> Server: ...

    @property
    def scope(self) -> Any: ...

    @property
    def session(self) -> Session: ...

    async def renew(self, session: Session | None = None) -> "Grant":
        """The grant as of now, refused if access was lost. `session` is the session if just read."""
        ...

    def is_of(self, user_id: str | None, credential_id: str | None) -> bool:
        """True if it belongs to this user or this credential."""
        ...


COMPLETED = Ending("end", 1000, "the session has ended")
DISCONNECTED = Ending("left", 1000, "")
CLOSING = Ending("closing", 1012, "the server is stopping; reconnect in a moment")
REFUSED = Ending("refused", 4403, "you no longer have access")
SLOW = Ending("slow", 4408, "the client reads too slowly")
FAILED = Ending("failed", 1011, "something went wrong in the server")
DAMAGED = Ending("damaged", 1011, "a part of the log is missing")


class Stream:
    """One connected client."""

    def __init__(self, grant: Grant, send: Send, slow_client_timeout_s: float, heartbeat_s: float) -> None:
        self.grant = grant
        self.slow_client_timeout_s = slow_client_timeout_s  # how long a client may not read
        self.heartbeat: Callable[[], Awaitable[None]] | None = None
        self.blocking_s: Callable[[], float] = lambda: (
            0.0
        )  # how long others have been waiting for this client
        self.renewed: Callable[[], None] = lambda: None  # called when the grant was renewed
        self.ending: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        self._send = send
        self._heartbeat_s = heartbeat_s
        self._since: float | None = None
        self._last_heartbeat = self._allowed = time.monotonic()
        self._renewed = self._allowed - random.uniform(0, RENEW_INTERVAL_S)  # spread over time
        self._heartbeat_task: asyncio.Task[None] | None = None
        self._is_running = False
        self._access = AccessConfirmation(self._renew_now)

    async def put(self, message: Any) -> None:
        """Send a message. While this waits, the client is not reading."""
        await self.confirm()
        self._since = time.monotonic()
        await self._send(message)
        self._since = None

    def end(self, why: Ending) -> None:
        if not self.ending.done():
            self.ending.set_result(why)

    # --- access ---

    @property
    def is_confirmed(self) -> bool:
        """False if access may have changed, or the stream is ending: nothing is sent or taken then."""
        return self._access.is_confirmed and not (self._is_running and self.ending.done())

    async def confirm(self) -> None:
        """Check the client's access if it may have changed. Raises if the stream ends."""
        await self._access.wait()
        if self._is_running and self.ending.done():
            raise Denied(self.ending.result().reason or "The stream has ended.")

    def confirmed(self, receive: Receive) -> Receive:
        """Receives messages, each only while the client has access."""

        async def take() -> Message:
            message = await receive()
            if not message["type"].endswith(".disconnect"):
                await self.confirm()
            return message

        return take

    def access_changed(self) -> None:
        """Have the client's access checked now, before anything else is sent or taken."""
        self._access.changed()

    async def _renew_now(self) -> bool:
        try:
            self.grant = await self.grant.renew()
        except (Denied, NotFound):
            self.end(REFUSED)
            return False
        except Exception:  # a busy database, for example: the client can come back
            logger.warning("stream.not_confirmed", session_id=self.grant.session.id, exc_info=True)
            self.end(FAILED)
            return False
        self.renewed()
        return True

    async def run(self, *works: Coroutine[Any, Any, Ending]) -> Ending:
        """Run these concurrently until one of them returns or the stream is ended."""
        tasks = [asyncio.ensure_future(work) for work in works]
        self._is_running = True
        try:
            await asyncio.wait([*tasks, self.ending], return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.end(DISCONNECTED)
            results = await cancel_and_wait(*tasks)
            self._is_running = False
        if self.ending.result() is not DISCONNECTED:
            return self.ending.result()
        for result in results:
            if isinstance(result, Ending):
                return result
            if isinstance(result, HutchError):
                raise result
            if isinstance(result, Exception) and not isinstance(result, DISCONNECTS):
                logger.error("stream.failed", session_id=self.grant.session.id, exc_info=result)
                return FAILED
        return DISCONNECTED

    def cut(self) -> None:
        """Abort the connection of a client that does not read."""
        if abort := abort_of(self.grant.scope):
            abort()

    # --- periodic checks ---

    def tick(self, now: float) -> bool:
        """Check timeouts and heartbeat. True if the grant is due for renewal."""
        if self.grant.server.closing:
            self.end(CLOSING)
        elif (self._since is not None and now - self._since > self.slow_client_timeout_s) or (
            self.blocking_s() > self.slow_client_timeout_s
        ):
            self.end(SLOW)
        elif now - self._renewed >= RENEW_INTERVAL_S:
            self._renewed = now
            return True
        elif self.heartbeat and self._since is None and now - self._last_heartbeat >= self._heartbeat_s:
            self._last_heartbeat = now
            self._heartbeat_task = asyncio.ensure_future(self._send_heartbeat())
        return False

    async def renew(self, read: "asyncio.Future[dict[str, Session]]") -> None:
        """Renew the grant, with sessions as they were just read."""
        try:
            session = (await read).get(self.grant.session.id)
            if session is None:
                raise NotFound("The session is gone.")
            self.grant = await self.grant.renew(session)
            self.renewed()
            self._allowed = time.monotonic()
        except (Denied, NotFound):
            self.end(REFUSED)
        except Exception:  # a busy database, for example
            logger.warning("stream.not_renewed", session_id=self.grant.session.id, exc_info=True)
            if time.monotonic() - self._allowed > MAX_UNCONFIRMED_S:
                self.end(FAILED)

    async def _send_heartbeat(self) -> None:
        with suppress(*DISCONNECTS):  # the reading task notices a disconnect
            if self.heartbeat:
                await self.heartbeat()

    async def stop(self) -> None:
        await self._access.stop()
        if self._heartbeat_task:
            await cancel_and_wait(self._heartbeat_task)


class Streams:
    """The open streams of an application."""

    def __init__(
        self,
        access_changes: AccessChanges,
        *,
        tick_s: float = TICK_INTERVAL_S,
        heartbeat_s: float = HEARTBEAT_INTERVAL_S,
    ) -> None:
        self._access_changes = access_changes
        access_changes.listeners.append(self.access_changed)
        self._tick_s, self._heartbeat_s = tick_s, heartbeat_s
        self._open: set[Stream] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._renewing: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._open)

    def access_changed(self, user_id: str | None, credential_id: str | None) -> None:
        """Have access checked now: that of a user, a credential, or of everyone if neither is given."""
        everyone = user_id is None and credential_id is None
        for stream in self._open:
            if everyone or stream.grant.is_of(user_id, credential_id):
                stream.access_changed()

    @asynccontextmanager
    async def open(
        self, grant: Grant, send: Send, *, heartbeat_s: float = float("inf")
    ) -> AsyncIterator[Stream]:
        """Open a stream; `heartbeat_s` can only shorten the heartbeat interval."""
        slow_client_timeout_s = float(grant.server.loaded.settings.server.slow_client_s)
        stream = Stream(grant, send, slow_client_timeout_s, min(heartbeat_s, self._heartbeat_s))
        self._open.add(stream)
        if grant.scope.get(CHECKED_AT) != self._access_changes.count:  # meanwhile
            stream.access_changed()
        if self._ticking is None:
            self._ticking = asyncio.ensure_future(self._tick())
        try:
            yield stream
        except DISCONNECTS:
            logger.debug("stream.left", session_id=grant.session.id)
        finally:
            self._open.discard(stream)
            if not self._open:
                self._ticking.cancel()
                self._ticking = None
            await stream.stop()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            try:
                await self._access_changes.find_by_commands()
            except Exception:  # a busy database: the next tick tries again
                logger.warning("stream.changes_not_found", exc_info=True)
            now = time.monotonic()
            due = []
            for stream in list(self._open):
                try:
                    if stream.tick(now):
                        due.append(stream)
                except Exception:  # the other streams depend on this task
                    logger.exception("stream.not_looked_after", session_id=stream.grant.session.id)
                    stream.end(FAILED)
            if due:
                renewing = asyncio.ensure_future(self._renew(due))
                self._renewing.add(renewing)
                renewing.add_done_callback(self._renewing.discard)

    async def _renew(self, due: list[Stream]) -> None:
        """Renew the grants, with one database query for all of them."""
        sessions = Sessions(due[0].grant.server.rows)
        read = asyncio.ensure_future(sessions.get_many(list({stream.grant.session.id for stream in due})))
        await asyncio.wait([read])
        for stream in due:
            if stream in self._open:
                await stream.renew(read)


def streams_of(app: Any) -> Streams:
    return cast(Streams, app.state.streams)
