"""Where a text stops being one of its language, as tree-sitter sees it.

Grammars are C code that hostile text can crash or keep busy for minutes, so each
runs in a process of its own that may only compute, and has little time. What
comes back is a line number; anything else counts as no answer.
"""

import atexit
import os
import select
import struct
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from hutch.domain.errors import Unavailable
from hutch.jail.seccomp import (
    ALLOW,
    ARCHITECTURE,
    ARCHITECTURES,
    EQUAL,
    KILL,
    LOAD,
    NUMBER,
    RETURN,
    Call,
    Code,
    this_machine,
)

_PROGRAM = Path(__file__).with_name("grammar_process.py")
HEADER, ANSWER = struct.Struct("<I"), struct.Struct("<i")  # as there, where importing would load the parser
_ANSWER_S = 10.0  # on a busy machine; the process itself counts the time that it computes
# What computing needs: pipes, memory, signals, the clock and the end.
_CALLS = (
    Call(0, 63),  # read
    Call(1, 64),  # write
    Call(12, 214),  # brk
    Call(9, 222),  # mmap
    Call(11, 215),  # munmap
    Call(25, 216),  # mremap
    Call(10, 226),  # mprotect
    Call(28, 233),  # madvise
    Call(202, 98),  # futex
    Call(37, None),  # alarm
    Call(38, 103),  # setitimer
    Call(15, 139),  # rt_sigreturn
    Call(228, 113),  # clock_gettime
    Call(60, 93),  # exit
    Call(231, 94),  # exit_group
)


class Grammar(NamedTuple):
    """A language, and where its grammar is."""

    name: str
    module: str
    function: str = "language"


class Unanswered(Exception):
    """The process could not be started, died, or took too long: nobody knows."""


def first_error_line(grammar: Grammar, text: str) -> int | None:
    """The line, from 0, where a text first does not parse; None when it does."""
    data = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
    line = _parsing(grammar).ask(data)
    return None if line < 0 else min(line, data.count(b"\n"))


@cache
def _parsing(grammar: Grammar) -> "_Parsing":
    return _Parsing(grammar)


class _Parsing:
    """The process of one grammar, started when it is wanted."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self._end)

    def ask(self, data: bytes) -> int:
        with self._lock:
            if self._process and self._process.poll() is not None:
                self._end()  # it had been idle for long
            try:
                return self._asked(data)
            except (OSError, Unanswered, Unavailable) as error:
                self._end()
                raise Unanswered(f"No answer about {self._grammar.name}: {error}") from None

    def _asked(self, data: bytes) -> int:
        """Send a text and wait for its line."""
        process = self._process = self._process or self._started()
        assert process.stdin and process.stdout
        until = time.monotonic() + _ANSWER_S
        view = memoryview(HEADER.pack(len(data)) + data)
        while view:
            _wait(process.stdin.fileno(), select.POLLOUT, until)
            view = view[os.write(process.stdin.fileno(), view) :]
        _wait(process.stdout.fileno(), select.POLLIN, until)
        answer = os.read(process.stdout.fileno(), ANSWER.size)
        if len(answer) != ANSWER.size:
            raise Unanswered("it ended")
        return int(ANSWER.unpack(answer)[0])

    def _started(self) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-I", str(_PROGRAM), *self._grammar[1:], allow_list().hex()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={},
            cwd="/",
        )
        assert process.stdin
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _end(self) -> None:
        if self._process:
            self._process.kill()
            with self._process:  # closes the pipes and waits
                self._process = None


def _wait(descriptor: int, event: int, until: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(until - time.monotonic(), 0) * 1000):
        raise Unanswered("it took too long")


def allow_list() -> bytes:
    """The filter of system calls for a process that only computes; another call ends it."""
    machine = this_machine()
    codes: list[Code] = [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, ARCHITECTURES[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]
    for call in _CALLS:
        number = call.on(machine)
        if number is not None:
            codes += [(EQUAL, 0, 1, number), (RETURN, 0, 0, ALLOW)]
    codes.append((RETURN, 0, 0, KILL))
    return b"".join(struct.pack("<HBBI", *code) for code in codes)
