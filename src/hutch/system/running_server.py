"""The server that runs on this machine: where it is, and how its own user's commands get in.

A server writes down where it listens, and takes that back at its end. One that was killed
cannot: what it left is known for stale, since its process is gone and its lock with it.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import hutch
from hutch.system.atomic_file import write_private
from hutch.system.clock import wall_ms
from hutch.system.process import start_stamp


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files by which commands find the server of their installation."""

    announcement: Path
    copy: Path  # of the announcement, in a directory that stays when the data directory goes
    lock: Path
    token: Path


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that is there now."""

    pid: int
    url: str  # for who is on this machine
    started_ms: int
    born: str  # by this and its number a process is known for the same
    certificate: str = ""  # of TLS; what is to be trusted at `url`, whatever name it is for
    version: str = hutch.__version__


def find_server(files: ServerFiles) -> RunningServer | None:
    """The server of this installation, if one runs; also one whose data directory is gone."""
    running = _read(files.announcement)
    if running is not None:
        return running if start_stamp(running.pid) == running.born and _is_held(files.lock) else None
    running = _read(files.copy)
    if running is None or start_stamp(running.pid) != running.born or files.lock.exists():
        return None
    return running


def _read(file: Path) -> RunningServer | None:
    try:
        running = RunningServer(**json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
    return running if isinstance(running.pid, int) and running.born else None


def local_token(files: ServerFiles) -> str | None:
    """What lets this user's commands in, if the server is theirs."""
    try:
        return files.token.read_text().strip() or None
    except OSError:
        return None


@contextmanager
def announced(
    files: ServerFiles, url: str, *, certificate: str = "", token: str = ""
) -> Iterator[RunningServer]:
    """Let commands on this machine find this process, for as long as it listens at `url`."""
    pid = os.getpid()
    running = RunningServer(pid, url, wall_ms(), start_stamp(pid), certificate)
    try:
        if token:
            write_private(files.token, token)
        for file in (files.copy, files.announcement):
            write_private(file, json.dumps(asdict(running)))
        yield running
    finally:
        withdraw(files)


def withdraw(files: ServerFiles) -> None:
    """Nothing listens any more. In another server's data directory, put in place of ours, all stays."""
    here = _read(files.announcement)
    stale = [files.copy]
    if here is None or here.pid == os.getpid():
        stale += [files.announcement, files.token]
    for file in stale:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _is_held(lock: Path) -> bool:
    """Asked only when its process lives, and so never in the way of one that is about to take it."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
