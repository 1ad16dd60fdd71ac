"""What tree-sitter sees in a text: where it stops being one of its language, and its pieces.

Grammars are C code that hostile text can crash or keep busy for minutes, so each
runs in a process of its own that may only compute, and has little time. What
comes back is a line number and a list of pieces; anything else counts as no answer.
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

from pydantic import TypeAdapter, ValidationError

from hutch.domain.errors import Unavailable
from hutch.jail.launch.seccomp import (
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
# As there, where importing would load the parser.
HEADER, ANSWER = struct.Struct("<I?"), struct.Struct("<iI")
_MOST_PIECES_BYTES = 16 * 1024 * 1024
_ANSWER_S = 10.0  # on a busy machine; the process itself counts the time that it computes
_FRESH_S = 45.0  # after an answer: a process that is idle for longer soon ends itself
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


class Piece(NamedTuple):
    """A part of a text, as its grammar names it. It holds the pieces that follow and are deeper."""

    depth: int
    kind: str
    field: str | None  # what it is to the piece that holds it
    start: int  # in bytes
    end: int


class Tree:
    """A text as its grammar sees it, from the first piece on; `whole` when nothing is wrong in it."""

    def __init__(self, data: bytes, pieces: list[Piece], *, whole: bool) -> None:
        self.pieces = pieces
        self.whole = whole
        self._data = data
        # Numbers and not pieces in pieces: hostile text is nested deeper than anything can follow.
        self._inside: list[list[int]] = [[] for _ in pieces]
        above: list[int] = []
        for number, piece in enumerate(pieces):
            while above and pieces[above[-1]].depth >= piece.depth:
                above.pop()
            if above:
                self._inside[above[-1]].append(number)
            above.append(number)

    def text(self, number: int) -> str:
        piece = self.pieces[number]
        return self._data[max(piece.start, 0) : max(piece.end, 0)].decode(errors="replace")

    def line(self, number: int) -> str:
        """The whole line on which a piece begins."""
        start = max(self.pieces[number].start, 0)
        end = self._data.find(b"\n", start)
        line = self._data[self._data.rfind(b"\n", 0, start) + 1 : end if end >= 0 else None]
        return line.decode(errors="replace")

    def inside(self, number: int) -> list[int]:
        """The numbers of the pieces that this one is made of."""
        return self._inside[number]


class Unanswered(Exception):
    """The process could not be started, died, or took too long: nobody knows."""


def first_error_line(grammar: Grammar, text: str) -> int | None:
    """The line, from 0, where a text first does not parse; None when it does."""
    data = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
    line, _ = _parsing(grammar).ask(data)
    return None if line < 0 else min(line, data.count(b"\n"))


def syntax_tree(grammar: Grammar, text: str) -> Tree:
    """All pieces of a text."""
    data = text.encode("utf-8", "replace")
    line, listed = _parsing(grammar).ask(data, pieces=True)
    try:
        return Tree(data, _PIECES.validate_json(listed), whole=line < 0)
    except ValidationError:
        raise Unanswered(f"No answer about {grammar.name}: it made no sense") from None


_PIECES = TypeAdapter(list[Piece])


@cache
def _parsing(grammar: Grammar) -> "_Parsing":
    return _Parsing(grammar)


class _Parsing:
    """The process of one grammar, started when it is wanted."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh_until = 0.0
        atexit.register(self._end)

    def ask(self, data: bytes, *, pieces: bool = False) -> tuple[int, bytes]:
        with self._lock:
            if self._process and (self._process.poll() is not None or time.monotonic() > self._fresh_until):
                self._end()  # it had been idle for long, and may be about to end
            try:
                return self._asked(data, pieces)
            except (OSError, Unanswered, Unavailable) as error:
                self._end()
                raise Unanswered(f"No answer about {self._grammar.name}: {error}") from None

    def _asked(self, data: bytes, pieces: bool) -> tuple[int, bytes]:
        """Send a text and wait for its line, and for its pieces when they are wanted."""
        process = self._process = self._process or self._started()
        assert process.stdin and process.stdout
        until = time.monotonic() + _ANSWER_S
        view = memoryview(HEADER.pack(len(data), pieces) + data)
        while view:
            _wait(process.stdin.fileno(), select.POLLOUT, until)
            view = view[os.write(process.stdin.fileno(), view) :]
        line, length = ANSWER.unpack(_read(process.stdout.fileno(), ANSWER.size, until))
        if length > (_MOST_PIECES_BYTES if pieces else 0):
            raise Unanswered("it says too much")
        listed = _read(process.stdout.fileno(), length, until)
        self._fresh_until = time.monotonic() + _FRESH_S
        return int(line), listed

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


def _read(descriptor: int, length: int, until: float) -> bytes:
    data = bytearray()
    while len(data) < length:
        _wait(descriptor, select.POLLIN, until)
        piece = os.read(descriptor, length - len(data))
        if not piece:
            raise Unanswered("it ended")
        data += piece
    return bytes(data)


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
