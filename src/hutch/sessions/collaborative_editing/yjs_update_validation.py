"""Counts the parts of a Yjs update before the library decodes it, and refuses what no editor of text sends.

The library decodes nested values by recursion, without a limit: one deep value ends the process. An update of
a text has only strings, and marks of what was deleted.
"""

from typing import NamedTuple

from hutch.domain.errors import BadRequest

GARBAGE, DELETED, STRING, SKIP = 0, 1, 4, 10  # what a struct contains
HAS_LEFT, HAS_RIGHT, HAS_KEY = 0x80, 0x40, 0x20  # bits beside it
ROOT_PARENT = 1
MAX_NUMBER = 2**32 - 1
MAX_CLIENT = 2**53 - 1


class Parts(NamedTuple):
    structs: int
    deleted_ranges: int


def count_parts(update: bytes, root: str) -> Parts:
    """The parts of an update of the text with this name."""
    parser = _Parser(update, root.encode())
    try:
        return parser.count()
    except IndexError:
        raise _wrong() from None


def _wrong() -> BadRequest:
    return BadRequest("This is not an update of a Yjs document that has one text.")


class _Parser:
    def __init__(self, data: bytes, root: bytes) -> None:
        self._data, self._root = data, root
        self._at = 0

    def count(self) -> Parts:
        all_structs = all_ranges = 0
        for _ in range(self._number()):
            structs = self._number()
            self._number(MAX_CLIENT)
            self._number()  # the clock of the first one
            for _ in range(structs):
                self._struct()
            all_structs += structs
        for _ in range(self._number()):
            self._number(MAX_CLIENT)
            ranges = self._number()
            for _ in range(2 * ranges):
                self._number()
            all_ranges += ranges
        if self._at != len(self._data):
            raise _wrong()
        return Parts(all_structs, all_ranges)

    def _struct(self) -> None:
        info = self._data[self._at]
        self._at += 1
        if info in (GARBAGE, SKIP):
            self._number()
            return
        content = info & 0x1F
        if content not in (DELETED, STRING) or info & HAS_KEY:
            raise _wrong()
        for bit in (HAS_LEFT, HAS_RIGHT):
            if info & bit:
                self._number(MAX_CLIENT)
                self._number()
        if not info & (HAS_LEFT | HAS_RIGHT) and (
            self._number() != ROOT_PARENT or self._bytes() != self._root
        ):
            raise _wrong()
        if content == STRING:
            self._bytes()
        else:
            self._number()

    def _number(self, most: int = MAX_NUMBER) -> int:
        """Seven bits in each byte, the lowest first. Longer forms of a number than needed are refused."""
        value = shift = 0
        while True:
            byte = self._data[self._at]
            self._at += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
            if shift > 56:
                raise _wrong()
        if value > most or (shift and not byte):
            raise _wrong()
        return value

    def _bytes(self) -> bytes:
        size = self._number()
        start = self._at
        self._at += size
        if self._at > len(self._data):
            raise _wrong()
        return self._data[start : self._at]
