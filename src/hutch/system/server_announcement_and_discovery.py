"""The running server of this machine: its address, and the token for its own user's commands.

A server announces its address in files and removes them when it ends. The files of a killed
server are recognised as stale, because its process and its lock are gone.
"""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import hutch
from hutch.system.atomic_file import write_private
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.system.process_identity import start_stamp


@dataclass(frozen=True, slots=True)
class ServerFiles:
    """The files by which commands find the server of their installation."""

    announcement: Path
    copy: Path  # of the announcement, in a directory that stays when the data directory goes
    lock: Path
    token: Path


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A server that runs now."""

    pid: int
    url: str  # for clients on this machine
    started_ms: int
    born: str  # identifies the process together with its pid
    certificate: str = ""  # the TLS certificate to trust at `url`, for any host name
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
    """The token for this user's commands, if the server is theirs."""
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
    """Remove the announcement. Files of another server in a replaced data directory stay."""
    here = _read(files.announcement)
    stale = [files.copy]
    if here is None or here.pid == os.getpid():
        stale += [files.announcement, files.token]
    for file in stale:
        with suppress(OSError):
            file.unlink(missing_ok=True)


def _is_held(lock: Path) -> bool:
    """Called only while the process lives, so it never blocks a server that is about to lock."""
    try:
        with lock.open() as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
