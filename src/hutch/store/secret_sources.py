"""Secrets that are not in the vault but in a file, in the environment, or printed by a command.

Files are read each time, so a rotated secret is used at once. The output of a command is kept for
`CACHE_S`, because password managers are slow. No value and no output of a command is logged or part of
an error.
"""

import os
import select
import shlex
import signal
import stat
import subprocess
import threading
import time
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import HutchError, Unavailable
from hutch.system.lazy_dataclass import dataclass

MAX_SECRET_BYTES = 64 * 1024
COMMAND_TIMEOUT_S = 10.0
CACHE_S = 60.0
ERROR_CACHE_S = 10.0
MAX_THREADS = 8
KINDS = {"file": "a file", "command": "a command", "env": "an environment variable"}
TOO_LARGE = f"gives more than {MAX_SECRET_BYTES // 1024} KiB."

_seen: set[str] = set()  # every value that a source gave in this process: all are redacted
_cache: dict[str, "_Cached"] = {}  # by command
_locks: dict[str, threading.Lock] = {}
_guard = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Cached:
    until_s: float
    output: bytes = field(repr=False)
    problem: str = ""


class _Problem(Exception):
    """Why a source gives no secret, as the end of a sentence."""


def seen_values() -> set[str]:
    """The values that sources have given to this process."""
    return _seen


@dataclass(frozen=True, slots=True)
class SecretSources:
    """The sources that the settings name: `file:PATH`, `command:LINE` or `env:VARIABLE`. Methods block."""

    sources: Mapping[str, str]
    environment: Mapping[str, str] = field(repr=False)
    timeout_s: float = COMMAND_TIMEOUT_S

    def read(self, names: Collection[str] | None = None) -> dict[str, str]:
        """The secrets that have a source, all or those of these names. A source that fails is an error."""
        return {name: self.get(name) for name in self.sources if names is None or name in names}

    def read_available(self, names: Collection[str] | None = None) -> tuple[dict[str, str], dict[str, str]]:
        """The secrets of the sources that work, and the problems of the others, by name."""
        wanted = [name for name in self.sources if names is None or name in names]
        found: dict[str, str] = {}
        problems: dict[str, str] = {}
        if not wanted:
            return found, problems
        with ThreadPoolExecutor(min(len(wanted), MAX_THREADS)) as threads:
            for name, value, problem in threads.map(self._try, wanted):
                if problem:
                    problems[name] = problem
                else:
                    found[name] = value
        return found, problems

    def get(self, name: str) -> str:
        """The secret of a name that has a source."""
        kind, _, place = self.sources[name].partition(":")
        try:
            match kind:
                case "file":
                    raw = _read_file(place)
                case "env":
                    raw = self._read_variable(place)
                case _:
                    raw = self._read_command(place)
            value = _text(raw)
        except _Problem as problem:
            # Without the place: other users of a server see this message.
            raise Unavailable(
                f"The secret {name} comes from {KINDS[kind]} that {problem} An owner can correct "
                f"secrets.{name} in the settings (hutch config secrets shows it), or remove it there and use "
                f"the vault: hutch config set-secret {name}"
            ) from None
        _seen.add(value)
        return value

    def _try(self, name: str) -> tuple[str, str, str]:
        try:
            return name, self.get(name), ""
        except HutchError as error:
            return name, "", str(error)

    def _read_variable(self, variable: str) -> bytes:
        if variable not in self.environment:
            raise _Problem("is not set in the environment of this process.")
        return os.fsencode(self.environment[variable])

    def _read_command(self, line: str) -> bytes:
        with _guard:
            lock = _locks.setdefault(line, threading.Lock())
        with lock:  # several callers wait for one command
            cached = _cache.get(line)
            if cached is None or cached.until_s < time.monotonic():
                try:
                    output = _run(shlex.split(line), self.environment, self.timeout_s)
                    cached = _Cached(time.monotonic() + CACHE_S, output)
                except _Problem as problem:
                    cached = _Cached(time.monotonic() + ERROR_CACHE_S, b"", str(problem))
                _cache[line] = cached
        if cached.problem:
            raise _Problem(cached.problem)
        return cached.output


def _read_file(place: str) -> bytes:
    path = Path(place).expanduser()
    try:  # without blocking: a pipe without a writer would wait forever
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _Problem(f"cannot be read: {error.strerror}.") from None
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _Problem("is not a file.")
        return os.read(fd, MAX_SECRET_BYTES + len("\r\n") + 1)
    except OSError as error:
        raise _Problem(f"cannot be read: {error.strerror}.") from None
    finally:
        os.close(fd)


def _run(arguments: list[str], environment: Mapping[str, str], timeout_s: float) -> bytes:
    """The output of a command, which runs without a shell and in a process group of its own."""
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # it may contain the secret
            env=dict(environment),
            cwd="/",
            process_group=0,
        )
    except OSError as error:
        raise _Problem(f"cannot be started: {error.strerror}.") from None
    with _ended(process):
        output = _read_until_end(process, time.monotonic() + timeout_s, timeout_s)
    if process.returncode:
        raise _Problem(f"exited with {process.returncode}. Try the command in a terminal.")
    return output


def _read_until_end(process: "subprocess.Popen[bytes]", deadline_s: float, timeout_s: float) -> bytes:
    assert process.stdout is not None
    fd, output = process.stdout.fileno(), b""
    readable = select.poll()
    readable.register(fd)
    while True:
        if not readable.poll(max(0.0, deadline_s - time.monotonic()) * 1000):
            raise _Problem(f"took more than {timeout_s:g} s. It must not wait for a user.")
        part = os.read(fd, 65536)
        if not part:
            break
        output += part
        if len(output) > MAX_SECRET_BYTES + len("\r\n"):
            raise _Problem(TOO_LARGE)
    try:
        process.wait(max(0.1, deadline_s - time.monotonic()))
    except subprocess.TimeoutExpired:
        raise _Problem(f"took more than {timeout_s:g} s. It must not wait for a user.") from None
    return output


@contextmanager
def _ended(process: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Kill the remaining processes of the command, and reap it."""
    try:
        yield
    finally:
        if process.returncode is None:  # it is not reaped, so its id cannot name another group
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
        assert process.stdout is not None
        process.stdout.close()
        process.wait()


def _text(raw: bytes) -> str:
    """The value without the newline at its end."""
    raw = raw.removesuffix(b"\n").removesuffix(b"\r")
    if len(raw) > MAX_SECRET_BYTES:
        raise _Problem(TOO_LARGE)
    try:
        value = raw.decode()
    except UnicodeDecodeError:
        value = "\0"
    if "\0" in value:
        raise _Problem("gives bytes that are not text. Encode them first, as base64.")
    if not value.strip():
        raise _Problem("is empty.")
    return value
