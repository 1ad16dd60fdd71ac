"""Runs that are reserved for one process.

`hutch run` opens its own host and works on its own session. Its runs carry the name of
that process from the start, so that a server on the same database does not claim them.
When the process has ended they are paused, so that no unwatched work costs money.
"""

import os
import socket

from hutch.system.process_identity import start_stamp

PREFIX = "run@"


def reservation_name() -> str:
    """The worker name under which this process reserves runs."""
    pid = os.getpid()
    return f"{PREFIX}{socket.gethostname()}:{pid}:{start_stamp(pid)}"


def is_reserved(worker: str) -> bool:
    return worker.startswith(PREFIX)


def is_gone(worker: str) -> bool:
    """True if the process of a reservation has ended. False for processes of other machines."""
    host, _, process = worker.removeprefix(PREFIX).rpartition(":")[0].rpartition(":")
    birth = worker.rpartition(":")[2]
    return host == socket.gethostname() and process.isdigit() and start_stamp(int(process)) != birth
