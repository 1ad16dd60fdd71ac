"""Ends a process whose terminal is closed, also where no SIGHUP arrives: under nohup or without a controlling
terminal.

Reading from a closed terminal would return immediately for ever, and writing would block for ever.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HUNG_UP = 128 + signal.SIGHUP


def is_terminal_closed(fd: int, within_ms: int | None = 0) -> bool:
    """True if a terminal is closed; with `within_ms=None`, wait until it is."""
    poller = select.poll()
    poller.register(fd, 0)  # poll always reports a hangup, and with 0 nothing else
    return bool(poller.poll(within_ms))


@contextmanager
def exit_when_terminal_closes(fd: int = 0) -> Iterator[None]:
    """End this process as soon as its terminal is closed, even if other code is blocked on it."""

    def wait() -> None:
        is_terminal_closed(fd, within_ms=None)
        os._exit(HUNG_UP)  # as SIGHUP would; no message can be shown

    threading.Thread(target=wait, name="hangup", daemon=True).start()
    try:
        yield
    finally:
        # The block may read the end of input, or fail to write, before the thread wakes.
        if is_terminal_closed(fd):
            os._exit(HUNG_UP)
