"""Runs that one process keeps for itself.

`hutch run` opens a host of its own and works on its own session there. Its runs carry the
name of that process from the beginning, so that a server on the same database leaves them
alone. When the process is gone they are paused: nobody pays for work that no one watches.
"""

import os
import socket

from hutch.system.process import start_stamp

PREFIX = "run@"


def reservation_name() -> str:
    """The name by which this process reserves runs."""
    pid = os.getpid()
    return f"{PREFIX}{socket.gethostname()}:{pid}:{start_stamp(pid)}"


def is_reserved(worker: str) -> bool:
    return worker.startswith(PREFIX)


def is_gone(worker: str) -> bool:
    """Whether the process of a reservation has ended. Of another machine's nothing is known."""
    host, _, process = worker.removeprefix(PREFIX).rpartition(":")[0].rpartition(":")
    birth = worker.rpartition(":")[2]
    return host == socket.gethostname() and process.isdigit() and start_stamp(int(process)) != birth
