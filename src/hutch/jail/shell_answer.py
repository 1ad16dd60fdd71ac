r"""What a shell answers at the end of a command, found among whatever else comes along.

Some tell it in the list of what they export, under a name that nobody can guess
and that comes last in the list; there it is quoted as the shell would read it:
`'it'"'"'s'` by dash, `"it's"` or `$'it\'s'` by a bash that is called sh. Others
print it between two NUL bytes. Nothing here runs.
"""

import re
from dataclasses import dataclass

PLAIN = re.compile(rb"""=(['"])(\d{1,3}) (\d{1,10}) ([^'"\\$`\n]*)\1\n""")
WORD = rb"""=('[^']*'(?:"'+"|'[^']*')*|"(?:[^"\\]|\\.)*"|\$'(?:[^'\\]|\\.)*')\n"""
QUOTED = re.compile(WORD, re.DOTALL)
ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
ESCAPED = dict(
    zip(
        (b"a", b"b", b"t", b"n", b"v", b"f", b"r", b"E"),
        (b"%c" % n for n in (*range(7, 14), 27)),
        strict=True,
    )
)
VALUE = re.compile(rb"(\d{1,3}) (\d{1,10}) (.*)", re.DOTALL)
PRINTED = re.compile(rb" (\d{1,3}) (\d{1,10}) ([^\0]*)\0")
EARLIER = re.compile(rb"zz[0-9a-f]{32}" + WORD + rb"|\0[0-9a-f]{32} [^\0]*\0", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Answer:
    """What a shell told."""

    exit_code: int
    background_pid: int  # of the last one started, 0 if none was
    cwd: str


class Hearing:
    """Waits for the answer with a nonce. What comes before it is what the shell exports, which is looked at
    only when somebody needs it."""

    def __init__(self, mark: bytes, most_bytes: int = 4 * 1024 * 1024) -> None:
        self._mark = mark  # comes before the nonce
        self._heard = b""
        self._before = b""
        self._exports = b""
        self._most = most_bytes

    def hear(self, data: bytes, nonce: bytes) -> Answer | None:
        heard = self._heard + data if self._heard else data
        mark = self._mark + nonce
        start = heard.find(mark)
        while start >= 0:
            told = _told(heard, start + len(mark))
            if told is not None:
                self._before, self._heard = heard[:start], heard[told[1] :]
                return told[0]
            start = heard.find(mark, start + 1)  # what `set -x` and `set -v` show of our own lines
        self._heard = heard[-self._most :]
        return None

    def exports(self) -> bytes:
        """As of the last answer, or of the last one that came with any."""
        past = 0
        for earlier in EARLIER.finditer(self._before):  # one may have come twice
            past = earlier.end()
        self._exports = _exports(self._before[past:]) or self._exports
        return self._exports


def _told(heard: bytes, at: int) -> tuple[Answer, int] | None:
    """The answer of which the nonce ends there, and where it ends itself."""
    said = PLAIN.match(heard, at)
    if said is not None:
        _, code, pid, cwd = said.groups()
        return Answer(int(code), int(pid), cwd.decode(errors="surrogateescape")), said.end()
    said = PRINTED.match(heard, at)
    if said is not None:
        code, pid, cwd = said.groups()
        return Answer(int(code), int(pid), cwd.decode(errors="surrogateescape")), said.end()
    said = QUOTED.match(heard, at)
    value = VALUE.fullmatch(_unquoted(said[1])) if said is not None else None
    if said is None or value is None:
        return None
    code, pid, cwd = value.groups()
    return Answer(int(code), int(pid), cwd.decode(errors="surrogateescape")), said.end()


def _unquoted(word: bytes) -> bytes:
    if word.startswith(b'"'):
        return re.sub(rb"\\(.)", rb"\1", word[1:-1], flags=re.DOTALL)
    if word.startswith(b"$"):
        return ESCAPE.sub(_unescaped, word[2:-1])
    return b"".join(part[1:-1] for part in re.findall(rb"""'[^']*'|"'+\"""", word))


def _unescaped(escape: re.Match[bytes]) -> bytes:
    name = escape[1]
    return bytes([int(name, 8) & 0xFF]) if len(name) == 3 else ESCAPED.get(name, name)


def _exports(text: bytes) -> bytes:
    """Whole lines, without what `set -x` wrote before them."""
    start = 0 if text.startswith((b"export ", b"declare ")) else -1
    if start < 0 and (found := re.search(rb"^(?:export|declare) ", text, re.MULTILINE)):
        start = found.start()
    return text[start : text.rfind(b"\n") + 1] if start >= 0 else b""
