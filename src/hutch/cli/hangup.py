"""A terminal that vanishes, also for who hears no SIGHUP: started by nohup, or without a terminal of its own.

What reads from it would find it ready for ever, and what writes to it would wait for ever.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

HUNG_UP = 128 + signal.SIGHUP


def is_gone(fd: int, within_ms: int | None = 0) -> bool:
    """Whether nobody is at the other end of a terminal any more; with None, wait until that is so."""
    poller = select.poll()
    poller.register(fd, 0)  # that it is hung up is told always, and nothing else shall be
    return bool(poller.poll(within_ms))


@contextmanager
def ended_with_terminal(fd: int = 0) -> Iterator[None]:
    """End this process as soon as its terminal is gone, whatever else hangs on that."""

    def wait() -> None:
        is_gone(fd, within_ms=None)
        os._exit(HUNG_UP)  # as SIGHUP would: there is nobody to say anything to

    threading.Thread(target=wait, name="hangup", daemon=True).start()
    try:
        yield
    finally:
        if is_gone(fd):  # the block may read the end of input, or fail to write, before the thread wakes
            os._exit(HUNG_UP)
