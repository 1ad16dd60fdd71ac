"""Finds the marks of a shell in the output of its terminal: see `jail/shell_prompt_marks.py`.

The output is hostile. A mark without the terminal's key is output like any other, so a program cannot report
a command that nobody typed. The shell's marks are removed from what is recorded, and so are marks around a
prompt, which have no key: they show nothing.
"""

import hmac
import re
from collections.abc import Iterator
from typing import Literal

from hutch.system.lazy_dataclass import dataclass

BEGINNING = b"\x1b]133;"
MAX_MARK_BYTES = 256 * 1024  # a longer one is output
MAX_EXIT_CODE = 255
AROUND_PROMPT = (b"A", b"B")
_BREAK = re.compile(rb"[\x07\x18\x1a\x1b]")  # the first of these ends a mark, or makes it none
_PROMPT = re.compile(
    rb"D;(?P<code>\d{1,3});hutch=(?P<key>[0-9a-f]+)(?P<typed>;typed=1)?;cwd=(?P<cwd>.*)", re.DOTALL
)
_START = re.compile(rb"C;hutch=(?P<key>[0-9a-f]+);(?P<field>command|perhaps)=(?P<text>.*)", re.DOTALL)
_CONTINUED = re.compile(rb"A;k=s;hutch=(?P<key>[0-9a-f]+)")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that the shell reports."""

    kind: Literal["prompt", "continued", "start"]  # continued: it waits for the next line of a command
    at: int  # the number of bytes printed up to its end
    exit_code: int | None = None  # of the command before the prompt
    cwd: str = ""
    reports_starts: bool = True  # False: a command starts when its line has been typed
    command: str = ""
    is_certain: bool = True  # False: perhaps it is the command before


class MarkParser:
    """Splits output, in chunks of any size, into marks and the rest."""

    def __init__(self, key: str) -> None:
        self._key = key.encode()
        self._held = b""  # the beginning of what may be a mark
        self._searched = 0  # bytes of it without an end
        self._fed = 0

    def feed(self, data: bytes) -> Iterator[bytes | Mark]:
        """Yield output and marks in their order."""
        self._fed += len(data)
        if not self._key or (not self._held and BEGINNING not in data and not _partial(data)):
            yield data
            return
        data, self._held = self._held + data, b""
        at, searched = 0, max(len(BEGINNING), self._searched)
        self._searched = 0
        while (start := data.find(BEGINNING, at)) >= 0:
            found = _BREAK.search(data, start + searched)
            searched = len(BEGINNING)
            end = found.start() if found else len(data)
            is_short = end - start <= MAX_MARK_BYTES
            if is_short and end >= len(data) - 1 and data[end:] in (b"", b"\x1b"):
                yield from _present(data[at:start])
                self._held, self._searched = data[start:], end - start
                return
            after = end + (2 if data.startswith(b"\x1b\\", end) else data.startswith(b"\x07", end))
            body = data[start + len(BEGINNING) : end] if after > end and is_short else b""
            mark = self._read(body, self._fed - len(data) + after)
            is_output = mark is None and body not in AROUND_PROMPT
            yield from _present(data[at : after if is_output else start])
            if mark is not None:
                yield mark
            at = after
        held = len(data) - _partial(data[at:])
        yield from _present(data[at:held])
        self._held = data[held:]

    def end(self) -> bytes:
        """The output that was held, when there is no more."""
        held, self._held = self._held, b""
        return held

    def _read(self, body: bytes, at: int) -> Mark | None:
        """The mark; None if it is not from the shell."""
        found = _PROMPT.fullmatch(body) or _START.fullmatch(body) or _CONTINUED.fullmatch(body)
        if found is None or not hmac.compare_digest(found["key"], self._key):
            return None
        if found.re is _PROMPT:
            code = min(int(found["code"]), MAX_EXIT_CODE)
            return Mark("prompt", at, code, _text(found["cwd"]), reports_starts=found["typed"] is None)
        if found.re is _START:
            return Mark("start", at, command=_text(found["text"]), is_certain=found["field"] == b"command")
        return Mark("continued", at)


def _present(data: bytes) -> Iterator[bytes]:
    if data:
        yield data


def _partial(data: bytes) -> int:
    """How many bytes at the end may be the beginning of a mark."""
    at = data.rfind(b"\x1b", -len(BEGINNING))
    return len(data) - at if at >= 0 and BEGINNING.startswith(data[at:]) else 0


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\r\n", "\n")  # the terminal has added the returns
