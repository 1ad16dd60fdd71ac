r"""What a shell answers at the end of a command, found among whatever else comes along.

Some tell it in the list of what they export, under a name that nobody can guess
and that comes last in the list: `export zz…='0 0'`. Others print it between two
NUL bytes. Nothing here runs.

What comes along may be hostile: each byte is looked at about once, however few
come at a time, and when there are too many the shell counts as lost.
"""

import re
from dataclasses import dataclass

TOLD = re.compile(rb"""=(['"])(\d{1,3}) (\d{1,10})\1\n| (\d{1,3}) (\d{1,10})\0""")
LONGEST_TOLD = 24
EARLIER = re.compile(rb"(?:zz|\0)[0-9a-f]{32}(?:%s)" % TOLD.pattern)
MOST_BYTES = 4 * 1024 * 1024  # more than any program could be given as its environment


@dataclass(frozen=True, slots=True)
class Answer:
    """What a shell told."""

    exit_code: int
    background_pid: int  # of the last one started, 0 if none was


class Hearing:
    """Waits for the answer with a nonce. What comes before it is what the shell exports, which is looked at
    only when somebody needs it."""

    def __init__(self, mark: bytes, most_bytes: int = MOST_BYTES) -> None:
        self.flooded = False  # more has come than an answer can be
        self._mark = mark  # comes before the nonce
        self._heard = bytearray()
        self._looked = 0  # up to where no answer has begun
        self._before = b""
        self._exports = b""
        self._most = most_bytes

    def hear(self, data: bytes, nonce: bytes) -> Answer | None:
        heard: bytes | bytearray = data
        if self._heard:
            self._heard += data
            heard = self._heard
        mark = self._mark + nonce
        unsure = -1
        at = heard.find(mark, self._looked)
        while at >= 0:
            end = at + len(mark)
            told = TOLD.match(heard, end)
            if told is not None:
                self._before = bytes(heard[:at])
                self._heard, self._looked = bytearray(heard[told.end() :]), 0
                return Answer(int(told[2] or told[4]), int(told[3] or told[5]))
            if unsure < 0 and len(heard) - end < LONGEST_TOLD:
                unsure = at  # the rest may be on its way
            at = heard.find(mark, at + 1)  # what `set -x` and `set -v` show of our own lines
        self._looked = unsure if unsure >= 0 else max(0, len(heard) - len(mark) + 1)
        if len(heard) > self._most:
            self.flooded = True
            self._heard, self._looked = bytearray(), 0
        elif heard is data:
            self._heard = bytearray(data)
        return None

    def exports(self) -> bytes:
        """As of the last answer, or of the last one that came with any."""
        past = 0
        for earlier in EARLIER.finditer(self._before):  # one may have come twice
            past = earlier.end()
        self._exports = _exports(self._before[past:]) or self._exports
        return self._exports


def _exports(text: bytes) -> bytes:
    """Whole lines, without what `set -x` wrote before them."""
    start = 0 if text.startswith((b"export ", b"declare ")) else -1
    if start < 0 and (found := re.search(rb"^(?:export|declare) ", text, re.MULTILINE)):
        start = found.start()
    return text[start : text.rfind(b"\n") + 1] if start >= 0 else b""
