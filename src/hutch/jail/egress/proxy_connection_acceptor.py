"""Accepts connections on a socket that the jail made.

The jail may keep the listening socket and change the shared state: make it blocking
again, take a connection that was just announced to us, shut it down. An event loop that
accepts on such a socket can be made to hang, so a separate thread accepts. The
connections themselves are ours alone.
"""

import asyncio
import contextlib
import errno
import select
import socket
import threading
import time
from collections.abc import Callable

import structlog

from hutch.jail.egress.egress_attempt_and_limit_types import EgressLimits

_CLOSE_ATTEMPTS = 250

logger = structlog.get_logger()

# The connection ended or we are short of descriptors: the next one may succeed.
_TRANSIENT_ERRORS = {
    *(errno.EAGAIN, errno.EINTR, errno.ECONNABORTED, errno.EPERM, errno.EPROTO),
    *(errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM),
}


class Acceptor:
    """Passes accepted connections to the event loop, up to a maximum number and rate."""

    def __init__(
        self, listener: socket.socket, limits: EgressLimits, start: Callable[[socket.socket], None]
    ) -> None:
        self._listener = listener
        self._limits = limits
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._slots = threading.Semaphore(limits.connections)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._accept, name="egress-accept", daemon=True)
        self._thread.start()

    def release(self) -> None:
        """Allow another connection, because one has ended."""
        self._slots.release()

    async def close(self) -> None:
        self._closed.set()
        self._slots.release()
        await asyncio.to_thread(self._join)
        self._listener.close()

    def _join(self) -> None:
        for _ in range(_CLOSE_ATTEMPTS):
            # Wakes poll and accept; repeated, because the jail may call listen() in between.
            with contextlib.suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)
            self._thread.join(0.02)
            if not self._thread.is_alive():
                return
        logger.warning("egress.listener_held")  # the thread ends with the jail

    # --- below here, everything runs in the accepting thread ---

    def _accept(self) -> None:
        ready = select.poll()
        ready.register(self._listener, select.POLLIN)
        burst = max(1.0, 2 * self._limits.attempts_per_s)
        tokens, then = burst, time.monotonic()
        while self._slots.acquire() and not self._closed.is_set():
            now = time.monotonic()
            tokens, then = min(burst, tokens + (now - then) * self._limits.attempts_per_s), now
            if tokens < 1:
                self._closed.wait((1 - tokens) / self._limits.attempts_per_s)
            ready.poll()
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                self._slots.release()
                if error.errno not in _TRANSIENT_ERRORS:
                    break
                self._closed.wait(0.01)
                continue
            tokens -= 1
            try:
                self._loop.call_soon_threadsafe(self._start, connection)
            except RuntimeError:  # the loop was closed meanwhile
                connection.close()
                break
        if not self._closed.is_set():
            logger.warning("egress.listener_lost")
