"""Hutch's commands, forked from a process that has loaded them already.

To load Hutch takes longer than most commands run. A `Forked` is a process of its own, as one of
`subprocess.Popen`: with its own words, environment, directory, descriptors, terminal and end. Only
what it would load first is there when it begins. What a run of tests wants for the first time is
started as a person starts it all the same, and so is what has an environment that loading may see.
"""

import asyncio
import atexit
import contextlib
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import termios
import threading
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HUTCH = str(Path(sys.executable).with_name("hutch"))
KNOWN = ("PATH", "HOME", "TERM", "TMPDIR", "HUTCH_", "GIT_", "GH_", "XDG_")  # nothing that is loaded asks
LATE = (
    *("alembic.config", "hutch.cli.run_here", "hutch.cli.run_served", "hutch.cli.screen"),
    *("hutch.gateway.mcp", "hutch.gateway.serve", "hutch.store.vault", "tests.gateway.api"),
)
ON_A_TERMINAL = ["setsid", "-c"]  # makes standard input its controlling one, and then is what follows
_started: set[str] = set()
_asking = threading.Lock()


class Forked(subprocess.Popen):  # type: ignore[type-arg]
    """`Popen([HUTCH, …], env=…)`, or `Popen([sys.executable, "-m", MODULE, …], env=…)`."""

    _told: int | None = None  # where its end is told

    async def said(self, within_s: float = 90) -> tuple[bytes, bytes]:
        """What it prints until its end, for which the loop goes on."""
        return await asyncio.to_thread(self.communicate, timeout=within_s)

    def kill_session(self) -> None:
        """It was started with a session of its own: all that is in there goes along."""
        os.killpg(self.pid, signal.SIGKILL)
        for pipe in (self.stdout, self.stderr):
            if pipe is not None:
                pipe.close()
        self.wait()

    def _execute_child(self, args: Any, *how: Any) -> None:
        executable, preexec, _, pass_fds, cwd, env, _, _, shell = how[:9]
        pipes, own_session = how[9:15], how[20]
        words = [os.fsdecode(word) for word in args]
        if executable or preexec or pass_fds or shell or not _may_be_forked(words, env):
            super()._execute_child(args, *how)
            return
        standard = [own if given == -1 else given for own, given in enumerate(pipes[i] for i in (0, 3, 5))]
        asked = {"words": words, "env": env, "cwd": os.fspath(cwd or Path.cwd()), "session": own_session}
        self._told, tell = os.pipe()
        with _asking:
            socket.send_fds(_stem(), [json.dumps(asked).encode()], [*standard, tell])
        os.close(tell)
        self.pid = self._number()
        self._child_created = True
        self._close_pipe_fds(*pipes)

    def _number(self) -> int:
        assert self._told is not None
        read = os.read(self._told, 4)
        assert read, "the process that commands are forked from has died"
        return int.from_bytes(read, "little")

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._told is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not select.select([self._told], [], [], 0)[0]:
            return 0, 0
        status = self._number()
        os.close(self._told)
        return self.pid, status

    def _internal_poll(self, *args: Any, **more: Any) -> int | None:
        if self._told is None:
            return super()._internal_poll(*args, **more)
        if self.returncode is None and self._waitpid_lock.acquire(False):
            try:
                pid, status = self._try_wait(os.WNOHANG) if self.returncode is None else (0, 0)
                if pid:
                    self._handle_exitstatus(status)
            finally:
                self._waitpid_lock.release()
        return self.returncode


def run(
    args: Any, *, input: Any = None, timeout: float | None = None, check: bool = False, **how: Any
) -> "subprocess.CompletedProcess[Any]":
    """As `subprocess.run`."""
    if how.pop("capture_output", False):
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


def _may_be_forked(words: list[str], env: dict[str, str] | None) -> bool:
    """Whether it would load the same, and was started as usual before."""
    if env is None or not all(name.startswith(KNOWN) for name in env):
        return False
    terminal, words = words[:2] == ON_A_TERMINAL, words[2:] if words[:2] == ON_A_TERMINAL else words
    match words:
        case [command, *rest] if command == HUTCH:
            what = f"{terminal} {rest[:1]}"
        case [command, "-m", module, *_] if command == sys.executable:
            what = f"{terminal} -m {module}"
        case _:
            return False
    before = what in _started
    _started.add(what)
    return before


@cache
def _stem() -> socket.socket:
    """How to speak with the process that commands are forked from."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forked", str(theirs.fileno())],
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


# --- and that process ---


def _load() -> None:
    commands = importlib.import_module("hutch.cli.commands").COMMANDS
    for module in (
        "hutch.cli.main",
        "hutch.cli.dispatch",
        *(each.target.split(":")[0] for each in commands),
        *LATE,
    ):
        importlib.import_module(module)
    assert threading.active_count() == 1, "a process with threads cannot be forked"
    gc.collect()
    gc.freeze()


def _serve(door: socket.socket) -> dict[str, Any] | None:
    """Fork for everyone who asks, and tell them of the end; returns in who was forked, with what to do."""
    running: dict[int, tuple[int, int]] = {}  # by its descriptor: which it is, and where to tell
    poll = select.poll()
    poll.register(door, select.POLLIN)
    while True:
        for ready, _ in poll.poll():
            if ready != door.fileno():
                pid, tell = running.pop(ready)
                poll.unregister(ready)
                os.close(ready)
                with contextlib.suppress(BrokenPipeError):
                    os.write(tell, os.waitpid(pid, 0)[1].to_bytes(4, "little"))
                os.close(tell)
                continue
            asked, descriptors, _, _ = socket.recv_fds(door, 1 << 20, 4)
            if not asked:
                return None
            *standard, tell = descriptors
            if not (pid := os.fork()):
                for each, (_, other) in running.items():
                    os.close(each)
                    os.close(other)
                os.close(tell)
                door.close()
                return _become(json.loads(asked), standard)
            running[at := os.pidfd_open(pid)] = (pid, tell)
            poll.register(at, select.POLLIN)
            os.write(tell, pid.to_bytes(4, "little"))
            for descriptor in standard:
                os.close(descriptor)


def _become(told: dict[str, Any], standard: list[int]) -> dict[str, Any]:
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))
    if on_a_terminal := told["words"][:2] == ON_A_TERMINAL:
        del told["words"][:2]
    if on_a_terminal or told["session"]:
        os.setsid()
    if on_a_terminal:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(told["cwd"])
    coerced = os.environ.get("LC_CTYPE")  # by Python, where nobody said anything
    os.environ.clear()
    os.environ.update(told["env"] | ({"LC_CTYPE": coerced} if coerced else {}))
    return told


def _end(code: int) -> None:
    """As Python ends, but for its memory: to give that back, it would have to be copied first."""
    threading._shutdown()
    atexit._run_exitfuncs()
    for file in (sys.stdout, sys.stderr):
        file.flush()
    os._exit(code)


def _main(door: int) -> None:
    _load()
    told = _serve(socket.socket(fileno=door))
    if told is None:
        return
    command, *words = told["words"]
    if command == HUTCH:
        sys.path[0] = str(Path(HUTCH).parent)
        sys.argv = [command, *words]
        _end(importlib.import_module("hutch.cli.main").main())
    _, module, *rest = words
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
    _end(0)


if __name__ == "__main__":
    _main(int(sys.argv[1]))
