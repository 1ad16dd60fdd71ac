"""The parser process of syntax_parser.py: run as a program, it imports nothing of Hutch.

Hostile text can exploit a grammar's C code. After the grammar is loaded, this process
can only read, compute and answer, so an exploit can do nothing else.
"""

import ctypes
import json
import os
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from importlib import import_module

from tree_sitter import Language, Node, Parser

IDLE_TIMEOUT_S = 60
CPU_TIMEOUT_S = 0.5
MAX_MEMORY_BYTES = 1 << 30
HEADER = struct.Struct("<I?")  # the length of a text, and whether its nodes are requested
ANSWER = struct.Struct("<iI")  # the line of the first error, from 0, or -1; the length of the nodes

_NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 38, 22, 2  # for prctl


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("codes", ctypes.c_char_p))


def main(module: str, function: str, program: str) -> None:
    """Parse one text after the other, until none arrives for a while."""
    parser = Parser(Language(getattr(import_module(module), function)()))
    answer(parser, b"x", True)  # loads what is loaded on first use
    if resource.getrlimit(resource.RLIMIT_CORE)[1]:  # with 0 a core dump handler would still be started
        resource.setrlimit(resource.RLIMIT_CORE, (1, 1))
    resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY_BYTES, MAX_MEMORY_BYTES))
    _lock_down(bytes.fromhex(program))
    while True:
        signal.alarm(IDLE_TIMEOUT_S)  # the default action ends the process
        length, nodes = HEADER.unpack(_read(HEADER.size))
        text = _read(length)
        signal.setitimer(signal.ITIMER_PROF, CPU_TIMEOUT_S)  # as does this timer
        reply = memoryview(answer(parser, text, nodes))
        signal.setitimer(signal.ITIMER_PROF, 0)
        while reply:
            reply = reply[os.write(1, reply) :]


def answer(parser: Parser, text: bytes, nodes: bool) -> bytes:
    """The encoded error line and nodes of a text."""
    root = parser.parse(text).root_node
    listed = json.dumps(list(all_nodes(root))).encode() if nodes else b""
    return ANSWER.pack(first_error(root), len(listed)) + listed


def all_nodes(root: Node) -> Iterator[tuple[int, str, str | None, int, int]]:
    """Each node after its parent: its depth, type, field, start and end."""
    cursor = root.walk()
    while True:
        node = cursor.node
        assert node
        yield cursor.depth, node.type, cursor.field_name, node.start_byte, node.end_byte
        if cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def first_error(node: Node) -> int:
    """The line of the first node that is an error or missing."""
    if not node.has_error:
        return -1
    while not node.is_error and not node.is_missing:
        inner = next((child for child in node.children if child.has_error), None)
        if inner is None:
            break
        node = inner
    return int(node.start_point.row)


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
