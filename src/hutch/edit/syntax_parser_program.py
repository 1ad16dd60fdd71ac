"""The parser process of syntax_parser.py: run as a program, it imports nothing of Hutch.

Hostile text can exploit a grammar's C code. After the grammar is loaded, this process
can only read, compute and answer, so an exploit can do nothing else.
"""

import ctypes
import json
import os
import re
import resource
import signal
import struct
import sys
from bisect import bisect_left
from collections.abc import Iterator
from importlib import import_module
from itertools import islice

from tree_sitter import Language, Node, Parser, Query, QueryCursor

IDLE_TIMEOUT_S = 60
CPU_TIMEOUT_S = 0.5
MAX_MEMORY_BYTES = 1 << 30
HEADER = struct.Struct("<IB")  # the length of a text, and what is requested of it
ERROR_LINE, ALL_NODES, QUERY_MATCHES = 0, 1, 2
ANSWER = struct.Struct("<iI")  # the line of the first error, from 0, or -1; the length of the rest
MAX_QUERY_MATCHES = 20_000

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # for prctl


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("codes", ctypes.c_char_p))


def main(module: str, function: str, query_text: str, program: str) -> None:
    """Parse one text after the other, until none arrives for a while."""
    language = Language(getattr(import_module(module), function)())
    parser, query = Parser(language), Query(language, query_text)
    for request in (ALL_NODES, QUERY_MATCHES):
        answer(parser, query, b"x", request)  # loads what is loaded on first use
    if resource.getrlimit(resource.RLIMIT_CORE)[1]:  # with 0 a core dump handler would still be started
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    _lock_down(bytes.fromhex(program))
    while True:
        signal.alarm(IDLE_TIMEOUT_S)  # the default action ends the process
        length, request = HEADER.unpack(_read(HEADER.size))
        text = _read(length)
        signal.setitimer(signal.ITIMER_PROF, CPU_TIMEOUT_S)  # as does this timer
        reply = memoryview(answer(parser, query, text, request))
        signal.setitimer(signal.ITIMER_PROF, 0)
        while reply:
            reply = reply[os.write(1, reply) :]


def answer(parser: Parser, query: Query, text: bytes, request: int) -> bytes:
    """The encoded error line of a text, and its nodes or the matches of the query if requested."""
    root = parser.parse(text).root_node
    listed = b""
    if request == ALL_NODES:
        listed = json.dumps(list(all_nodes(root))).encode()
    elif request == QUERY_MATCHES:
        listed = json.dumps(list(islice(query_matches(query, root, text), MAX_QUERY_MATCHES))).encode()
    return ANSWER.pack(first_error(root, text), len(listed)) + listed


def query_matches(query: Query, root: Node, text: bytes) -> Iterator[tuple[str, str, int, int]]:
    """Each match: the capture that is not the name, the name, and the first and last line, from 0."""
    line_ends = [end.start() for end in re.finditer(b"\n", text)]
    for _, captures in QueryCursor(query).matches(root):
        start, end = captures["name"][0].byte_range
        name = text[start:end].decode(errors="replace")
        for kind, nodes in captures.items():
            if kind != "name":
                # From bytes: this version of the library crashes after many reads of points.
                first, last = (bisect_left(line_ends, each) for each in nodes[0].byte_range)
                yield kind, name, first, last


def all_nodes(root: Node) -> Iterator[tuple[int, str, str | None, int, int]]:
    """Each node after its parent: its depth, type, field, start and end."""
    cursor = root.walk()
    depth = 0  # counted here: the cursor's own climbs to the root each time
    while True:
        node = cursor.node
        assert node
        yield depth, node.type, cursor.field_name, node.start_byte, node.end_byte
        if cursor.goto_first_child():
            depth += 1
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return
            depth -= 1


def first_error(node: Node, text: bytes) -> int:
    """The line of the first node that is an error or missing, from 0; -1 if there is none."""
    if not node.has_error:
        return -1
    while not node.is_error and not node.is_missing:
        inner = next((child for child in node.children if child.has_error), None)
        if inner is None:
            break
        node = inner
    return text.count(b"\n", 0, node.start_byte)  # not from its point: see `query_matches`


def _lock_down(codes: bytes) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(codes) // 8, codes)
    if library.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or library.prctl(
        _SECCOMP, _FILTER, ctypes.byref(program), 0, 0
    ):
        raise OSError(ctypes.get_errno(), "no filter of system calls, so nothing is parsed")


def _read(length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        chunk = os.read(0, length - len(data))
        if not chunk:
            os._exit(0)
        data += chunk
    return bytes(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
