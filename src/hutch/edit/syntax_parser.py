"""Parses a text with tree-sitter: the line of its first syntax error, and its nodes.

Grammars are C code that hostile text can crash or keep busy for minutes, so each
runs in a process of its own that may only compute, with a short timeout. The answer
is a line number and a list of nodes; anything else counts as a failure.
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

_PROGRAM = Path(__file__).with_name("syntax_parser_program.py")
# As in syntax_parser_program.py, which cannot be imported here without loading the parser.
HEADER, ANSWER = struct.Struct("<IB"), struct.Struct("<iI")
_ERROR_LINE, _ALL_NODES, _QUERY_MATCHES = 0, 1, 2
_MAX_NODES_BYTES = 16 * 1024 * 1024
_ANSWER_TIMEOUT_S = 10.0  # generous for a busy machine; the process limits its own CPU time
_IDLE_LIMIT_S = 45.0  # an older process is about to end by itself
# System calls for computing: pipes, memory, signals, the clock and exit.
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
    """A language and the module of its grammar."""

    name: str
    module: str
    function: str = "language"
    query: str = ""  # each match captures a `name`, and the node that it names under another name


class SyntaxNode(NamedTuple):
    """A part of a text, as its grammar names it. Its children are the deeper nodes that follow."""

    depth: int
    kind: str
    field: str | None  # the name of its role in its parent
    start: int  # in bytes
    end: int


class SyntaxTree:
    """The nodes of a text in document order; `is_valid` when it has no syntax error."""

    def __init__(self, data: bytes, nodes: list[SyntaxNode], *, is_valid: bool) -> None:
        self.nodes = nodes
        self.is_valid = is_valid
        self._data = data
        # Indices instead of nested objects: hostile text can be nested deeper than recursion allows.
        self._children: list[list[int]] = [[] for _ in nodes]
        above: list[int] = []
        for number, node in enumerate(nodes):
            while above and nodes[above[-1]].depth >= node.depth:
                above.pop()
            if above:
                self._children[above[-1]].append(number)
            above.append(number)

    def text(self, number: int) -> str:
        node = self.nodes[number]
        return self._data[max(node.start, 0) : max(node.end, 0)].decode(errors="replace")

    def line(self, number: int) -> str:
        """The line on which a node begins."""
        start = max(self.nodes[number].start, 0)
        end = self._data.find(b"\n", start)
        line = self._data[self._data.rfind(b"\n", 0, start) + 1 : end if end >= 0 else None]
        return line.decode(errors="replace")

    def children(self, number: int) -> list[int]:
        """The indices of the children of a node."""
        return self._children[number]


class QueryMatch(NamedTuple):
    """A match of a grammar's query."""

    kind: str
    name: str
    first_line: int  # from 0
    last_line: int


class ParseFailed(Exception):
    """The parser process could not be started, died, or timed out."""


def first_error_line(grammar: Grammar, text: str) -> int | None:
    """The line, from 0, of the first syntax error; None when there is none."""
    data = text.replace("\r\n", "\n").replace("\r", "\n").encode("utf-8", "replace")
    line, _ = _parser_process(grammar).ask(data)
    return None if line < 0 else min(line, data.count(b"\n"))


def syntax_tree(grammar: Grammar, text: str) -> SyntaxTree:
    """Parse a text into its nodes."""
    data = text.encode("utf-8", "replace")
    line, listed = _parser_process(grammar).ask(data, _ALL_NODES)
    try:
        return SyntaxTree(data, _NODES.validate_json(listed), is_valid=line < 0)
    except ValidationError:
        raise ParseFailed(f"No answer about {grammar.name}: the answer is invalid") from None


def query_matches(grammar: Grammar, text: str) -> list[QueryMatch]:
    """The matches of the grammar's query in a text, in document order."""
    _, listed = _parser_process(grammar).ask(text.encode("utf-8", "replace"), _QUERY_MATCHES)
    try:
        return _MATCHES.validate_json(listed)
    except ValidationError:
        raise ParseFailed(f"No answer about {grammar.name}: the answer is invalid") from None


_NODES = TypeAdapter(list[SyntaxNode])
_MATCHES = TypeAdapter(list[QueryMatch])


@cache
def _parser_process(grammar: Grammar) -> "_ParserProcess":
    return _ParserProcess(grammar)


class _ParserProcess:
    """The process of one grammar, started on first use."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._fresh_until = 0.0
        atexit.register(self._end)

    def ask(self, data: bytes, request: int = _ERROR_LINE) -> tuple[int, bytes]:
        with self._lock:
            if self._process and (self._process.poll() is not None or time.monotonic() > self._fresh_until):
                self._end()  # it was idle for long, and may be about to end
            try:
                return self._request(data, request)
            except (OSError, ParseFailed, Unavailable) as error:
                self._end()
                raise ParseFailed(f"No answer about {self._grammar.name}: {error}") from None

    def _request(self, data: bytes, request: int) -> tuple[int, bytes]:
        """Send a text and wait for its error line, and for what is requested of it."""
        process = self._process = self._process or self._start()
        assert process.stdin and process.stdout
        until = time.monotonic() + _ANSWER_TIMEOUT_S
        view = memoryview(HEADER.pack(len(data), request) + data)
        while view:
            _wait(process.stdin.fileno(), select.POLLOUT, until)
            view = view[os.write(process.stdin.fileno(), view) :]
        line, length = ANSWER.unpack(_read(process.stdout.fileno(), ANSWER.size, until))
        if length > (_MAX_NODES_BYTES if request else 0):
            raise ParseFailed("the answer is too long")
        listed = _read(process.stdout.fileno(), length, until)
        self._fresh_until = time.monotonic() + _IDLE_LIMIT_S
        return int(line), listed

    def _start(self) -> subprocess.Popen[bytes]:
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
        chunk = os.read(descriptor, length - len(data))
        if not chunk:
            raise ParseFailed("it ended")
        data += chunk
    return bytes(data)


def _wait(descriptor: int, event: int, until: float) -> None:
    poll = select.poll()
    poll.register(descriptor, event)
    if not poll.poll(max(until - time.monotonic(), 0) * 1000):
        raise ParseFailed("it took too long")


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
