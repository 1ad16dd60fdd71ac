"""Hutch's commands, forked from a process that has loaded them already.

To load Hutch takes longer than most commands run. A `Forked` is a process of its own, with the
methods of `subprocess.Popen` that tests use: it has its own words, environment, directory,
descriptors, terminal and end. Only the modules that it would load are there when it begins. The
first command of a kind in a test run is started by `subprocess` all the same, and so is a command
whose environment could change what is loaded.
"""

import asyncio
import atexit
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from tests.fork_server import ON_A_TERMINAL, STOPPING

ROOT = Path(__file__).resolve().parents[1]
HUTCH = str(Path(sys.executable).with_name("hutch"))
# Environment variables that have no effect on loading.
KNOWN = (
    *("PATH", "HOME", "TERM", "TMPDIR", "EDITOR", "VISUAL", "PIP_INDEX_URL"),
    *("HUTCH_", "GIT_", "GH_", "GITHUB_", "XDG_", "ANTHROPIC_", "GEMINI_", "OPENAI_"),
)
PLAIN = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
_asking = threading.Lock()
_known: set[str] = set()  # kinds of commands that this process has asked for


class Forked:
    """`Forked([HUTCH, …], env=…)`, or the same with `sys.executable` and `-m MODULE …` or `-c PROGRAM …`.

    SIGINT, SIGHUP, SIGQUIT and SIGTERM have their default effect in the new process, whatever
    pytest inherited, except those in `ignoring`. Any keyword of `Popen` that is not named here is
    passed on to it, and then the command is not forked.
    """

    def __init__(
        self,
        args: Sequence[str | os.PathLike[str]],
        *,
        env: dict[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: Any = None,
        stdout: Any = None,
        stderr: Any = None,
        text: bool = False,
        start_new_session: bool = False,
        ignoring: Iterable[signal.Signals] = (),
        **more: Any,
    ) -> None:
        self.args = args
        self.returncode: int | None = None
        self.stdin: IO[Any] | None = None
        self.stdout: IO[Any] | None = None
        self.stderr: IO[Any] | None = None
        self._ending = threading.Lock()  # held by the one thread that waits for the end
        self._reading: dict[str, _Reading] = {}
        words = [os.fspath(word) for word in args]
        ignored = [each.name for each in map(signal.Signals, ignoring)]
        assert set(ignored) <= set(STOPPING), f"of {ignored}, only {STOPPING} can be ignored"
        opened: list[int] = []  # the child's ends
        try:
            standard = [
                self._descriptor(number, given, text, opened)
                for number, given in enumerate((stdin, stdout, stderr))
            ]
            standard[2] = standard[1] if stderr == subprocess.STDOUT else standard[2]
            self._process: subprocess.Popen[bytes] | _Fork
            if more or not _may_be_forked(words, env):
                self._process = subprocess.Popen(
                    [*_with_signals(ignored), *words],
                    env=env,
                    cwd=cwd,
                    stdin=standard[0],
                    stdout=standard[1],
                    stderr=standard[2],
                    start_new_session=start_new_session,
                    **more,
                )
            else:
                asked = {"words": words, "env": env, "cwd": os.fspath(cwd or Path.cwd())}
                asked |= {"session": start_new_session, "ignored": ignored}
                self._process = _Fork(asked, standard)
            self.pid = self._process.pid
        finally:
            for descriptor in opened:
                os.close(descriptor)

    def _descriptor(self, number: int, given: Any, text: bool, opened: list[int]) -> int:
        """The file for this standard descriptor; the other end of a pipe becomes a file of ours."""
        if given is None or given == subprocess.STDOUT:
            return number
        if given == subprocess.DEVNULL:
            opened.append(os.open(os.devnull, os.O_RDWR))
        elif given == subprocess.PIPE:
            ends = os.pipe()
            ours, theirs = ends if number else reversed(ends)
            opened.append(theirs)
            mode = ("r" if number else "w") + ("" if text else "b")
            setattr(self, ("stdin", "stdout", "stderr")[number], open(ours, mode))  # noqa: PTH123, SIM115
        else:
            return given if isinstance(given, int) else int(given.fileno())
        return opened[-1]

    def __enter__(self) -> "Forked":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()
        self.wait()

    def poll(self) -> int | None:
        """Its exit code, or None while it runs."""
        if self.returncode is None and self._ending.acquire(blocking=False):
            try:
                self.returncode = self._process.poll()
            finally:
                self._ending.release()
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        until = None if timeout is None else time.monotonic() + timeout
        if not self._ending.acquire(timeout=-1 if timeout is None else max(timeout, 0)):
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        try:
            if self.returncode is None:
                self.returncode = self._process.wait(_left(until))
            return self.returncode
        except subprocess.TimeoutExpired:
            raise subprocess.TimeoutExpired(self.args, timeout or 0) from None
        finally:
            self._ending.release()

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write `input`, read both outputs to their ends, and wait."""
        until = None if timeout is None else time.monotonic() + timeout
        if not self._reading:
            pipes = {"stdout": self.stdout, "stderr": self.stderr}
            self._reading = {name: _Reading(pipe) for name, pipe in pipes.items() if pipe and not pipe.closed}
            if self.stdin is not None and not self.stdin.closed:
                # A thread of its own: the process may want to be read before it reads all of this.
                threading.Thread(target=_write, args=(self.stdin, input), daemon=True).start()
        for reading in self._reading.values():
            reading.join(_left(until))
            if reading.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
        self.wait(_left(until))
        printed, said = (self._reading.get(name) for name in ("stdout", "stderr"))
        return printed and printed.content, said and said.content

    async def output(self, within_s: float = 90) -> tuple[bytes, bytes]:
        """Its output until its end; does not block the event loop."""
        return await asyncio.to_thread(self.communicate, timeout=within_s)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with suppress(ProcessLookupError):  # it has just ended, and the report of that is on its way
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def kill_session(self) -> None:
        """It was started with a session of its own: all that is in there goes along."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._close()
        self.wait()

    def _close(self) -> None:
        for name, pipe in (("stdin", self.stdin), ("stdout", self.stdout), ("stderr", self.stderr)):
            if pipe is not None and name not in self._reading:
                try:
                    pipe.close()
                except BrokenPipeError:  # what was still to be written is not wanted any more
                    continue


class _Fork:
    """A child of the process that commands are forked from: its pid, and where its end is reported."""

    def __init__(self, asked: dict[str, Any], standard: list[int]) -> None:
        sys.audit("tests.forked_command")  # else nobody sees that a process is started
        self._reports, report = os.pipe()
        try:
            with _asking:
                socket.send_fds(_stem(), [json.dumps(asked).encode()], [*standard, report])
        finally:
            os.close(report)
        self.pid = self._number()

    def poll(self) -> int | None:
        return self._end(0)

    def wait(self, timeout: float | None) -> int:
        code = self._end(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("", timeout or 0)
        return code

    def _end(self, timeout: float | None) -> int | None:
        if not select.select([self._reports], [], [], timeout)[0]:
            return None
        status = self._number()
        os.close(self._reports)
        return os.waitstatus_to_exitcode(status)

    def _number(self) -> int:
        read = os.read(self._reports, 4)
        assert read, "the process that commands are forked from has died"
        return int.from_bytes(read, "little")


class _Reading(threading.Thread):
    """Reads a pipe to its end."""

    def __init__(self, pipe: IO[Any]) -> None:
        super().__init__(daemon=True)
        self._pipe = pipe
        self.content: Any = None
        self.start()

    def run(self) -> None:
        with self._pipe:
            self.content = self._pipe.read()


def _write(pipe: IO[Any], content: Any) -> None:
    try:
        with pipe:
            if content:
                pipe.write(content)
    except BrokenPipeError:  # it ended, or closed its input, before it read all
        return


def _left(until: float | None) -> float | None:
    return None if until is None else max(until - time.monotonic(), 0)


def run(
    args: Sequence[str | os.PathLike[str]],
    *,
    input: Any = None,
    capture_output: bool = False,
    timeout: float | None = None,
    check: bool = False,
    **how: Any,
) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run`."""
    if capture_output:
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    if input is not None:
        how["stdin"] = subprocess.PIPE
    with Forked(args, **how) as process:
        try:
            printed, said = process.communicate(input, timeout=timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, printed, said)
    if check:
        done.check_returncode()
    return done


def _with_signals(ignored: list[str]) -> list[str]:
    """A command to put before another, which then starts with these signals ignored."""
    env = shutil.which("env")
    assert env, "the program env is not on PATH"
    names = {"default": [name for name in STOPPING if name not in ignored], "ignore": ignored}
    return [env, *(f"--{how}-signal={','.join(each)}" for how, each in names.items() if each)]


def _may_be_forked(words: list[str], env: dict[str, str] | None) -> bool:
    """True if it would load the same modules, and one of its kind was started by `subprocess` before."""
    if env is None or not all(name.startswith(KNOWN) for name in env):
        return False
    match words[2:] if words[:2] == ON_A_TERMINAL else words:
        case [command, *rest] if command == HUTCH:
            what = f"{rest[:1]}"
        case [command, "-m", module, *_] if command == sys.executable:
            what = f"-m {module}"
        case [command, "-c", _, *_] if command == sys.executable:
            what = "-c"
        case _:
            return False
    return not _is_first(what)


def _is_first(what: str) -> bool:
    """True if no worker of this test run has asked for it before, as far as this one can know."""
    if what in _known:
        return False
    _known.add(what)
    try:
        (_directory_of_seen_commands() / hashlib.sha256(what.encode()).hexdigest()).touch(exist_ok=False)
    except FileExistsError:
        return False
    except FileNotFoundError:  # whoever made the directory has ended, and removed it
        return True
    return True


@cache
def _directory_of_seen_commands() -> Path:
    """A directory that all workers of a test run share, with a file for each kind of command.

    Only the process that made it removes it: others, such as those that tests start, end long before.
    """
    run = os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex
    place = Path(tempfile.gettempdir(), f"hutch-test-kinds-{run}")
    with suppress(FileExistsError):
        place.mkdir()
        atexit.register(shutil.rmtree, place, ignore_errors=True)
    return place


@cache
def _stem() -> socket.socket:
    """A connection to the process that commands are forked from."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.fork_server", HUTCH, str(theirs.fileno())],
        cwd=ROOT,
        env={"PATH": os.environ["PATH"], "HUTCH_HOME": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours
