"""The rules of `.gitignore` files, applied while walking down a tree.

The rules are git's, byte by byte. The patterns are hostile: the usual translation
into a regular expression takes minutes for one name if a pattern has a dozen stars.
So each part between two stars is matched once, at its first position, without
backtracking; that is sufficient for patterns whose only wildcard is the star.

Only `.gitignore` files count. `.git/info/exclude` and the user's own excludes are
not content: a snapshot of the same files must be the same everywhere.
"""

import os
import re
import string
from dataclasses import field
from functools import lru_cache
from itertools import groupby, pairwise

from hutch.system.lazy_dataclass import dataclass

GITIGNORE = ".gitignore"
MAX_GITIGNORE_BYTES = 64 * 1024  # of one .gitignore; a longer one is ignored
MAX_TOTAL_BYTES = 2 * 1024 * 1024  # of all files of one walk: compiling takes up to 7 seconds per MiB

_CLASSES = {
    b"alnum": string.ascii_letters + string.digits,
    b"alpha": string.ascii_letters,
    b"blank": " \t",
    b"cntrl": "".join(map(chr, (*range(32), 127))),
    b"digit": string.digits,
    b"graph": "".join(map(chr, range(33, 127))),
    b"lower": string.ascii_lowercase,
    b"print": "".join(map(chr, range(32, 127))),
    b"punct": string.punctuation,
    b"space": " \t\n\v\f\r",
    b"upper": string.ascii_uppercase,
    b"xdigit": string.hexdigits,
}
_STAR, _DEEP = b"*", b"**"  # as tokens; anything else is a regular expression for one byte
_ANY = rb"[^/]"
_MAGIC = frozenset(b"*?[\\")


@dataclass(frozen=True, slots=True)
class _Group:
    """Consecutive lines of the same sign, whose order does not matter."""

    ignored: bool
    names: frozenset[bytes]  # without wildcards; directories end with a slash
    name: re.Pattern[bytes] | None
    path: re.Pattern[bytes] | None

    def match(self, name: bytes, path: bytes) -> bool:
        return bool(
            name in self.names
            or (self.name and self.name.fullmatch(name))
            or (self.path and self.path.fullmatch(path))
        )


@dataclass(slots=True)
class _Budget:
    remaining_bytes: int = MAX_TOTAL_BYTES


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules of one directory. Start with `IgnoreRules()`, descend with `enter`.

    Nothing in an ignored directory can be included again, so do not enter one.
    """

    _start: int = 0  # of names below this directory, in bytes of an encoded path
    _groups: tuple[_Group, ...] = ()
    _above: "IgnoreRules | None" = None
    _budget: _Budget = field(default_factory=_Budget)

    def enter(self, directory: str, gitignore: bytes | None) -> "IgnoreRules":
        """The rules inside a directory with this `.gitignore`, if it has one."""
        if not gitignore or len(gitignore) > min(MAX_GITIGNORE_BYTES, self._budget.remaining_bytes):
            return self
        groups = _groups(gitignore)
        self._budget.remaining_bytes -= len(gitignore)
        start = len(os.fsencode(directory)) + 1 if directory else 0
        return IgnoreRules(start, groups, self, self._budget)

    def match(self, path: str, is_directory: bool) -> bool:
        """True if a path in this directory is ignored. A link to a directory is not a directory."""
        encoded = os.fsencode(path)
        name = encoded[encoded.rfind(b"/") + 1 :]
        if name == b".git":
            return True
        if is_directory:
            encoded, name = encoded + b"/", name + b"/"
        rules: IgnoreRules | None = self
        while rules is not None:
            below = encoded[rules._start :]
            for group in rules._groups:
                if group.match(name, below):
                    return group.ignored
            rules = rules._above
        return False


@dataclass(frozen=True, slots=True)
class _Line:
    ignored: bool
    names: tuple[bytes, ...]  # if the pattern is only a name
    anywhere: bool  # matches at any depth
    regex: bytes


@lru_cache(maxsize=256)
def _groups(gitignore: bytes) -> tuple[_Group, ...]:
    """The last line that matches decides, so the last group comes first."""
    lines = [line for raw in gitignore.removeprefix(b"\xef\xbb\xbf").split(b"\n") if (line := _line(raw))]
    groups = []
    for ignored, run in groupby(reversed(lines), key=lambda line: line.ignored):
        found = list(run)
        groups.append(
            _Group(
                ignored,
                frozenset(name for line in found for name in line.names),
                _any_of([line.regex for line in found if not line.names and line.anywhere]),
                _any_of([line.regex for line in found if not line.names and not line.anywhere]),
            )
        )
    return tuple(groups)


def _any_of(regexes: list[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(regexes)) if regexes else None


def _line(raw: bytes) -> _Line | None:
    """One line of a `.gitignore`, if it can ever match."""
    if raw.startswith(b"#"):
        return None
    text = _without_trailing_space(raw.removesuffix(b"\r"))
    ignored = not text.startswith(b"!")
    text = text.removeprefix(b"!")
    must_be_directory = text.endswith(b"/")
    text = text[:-1] if must_be_directory else text
    anywhere = b"/" not in text
    tokens = _tokens(text.removeprefix(b"/"))
    if not tokens or (b"/", b"/") in pairwise([b"/", *tokens, b"/"]):  # no name is empty
        return None
    tail = b"/" if must_be_directory else b"/?"
    names = (text + b"/",) if must_be_directory else (text, text + b"/")
    is_name = anywhere and _MAGIC.isdisjoint(text)
    return _Line(ignored, names if is_name else (), anywhere, _regex(tokens) + tail)


def _without_trailing_space(text: bytes) -> bytes:
    """A space stays when a backslash stands before it that is not itself escaped."""
    short = text.rstrip(b" ")
    escapes = len(short) - len(short.rstrip(b"\\"))
    return text[: len(short) + 1] if escapes % 2 else short


def _tokens(text: bytes) -> list[bytes] | None:
    """A pattern as stars, slashes and regular expressions for one byte; None when nothing can match it."""
    found = []
    at = 0
    while at < len(text):
        here = text[at : at + 1]
        if here == b"*":
            run = len(text[at:]) - len(text[at:].lstrip(b"*"))
            starts = at == 0 or text[at - 1 : at] == b"/"
            ends = text[at + run : at + run + 1] in (b"", b"/")
            found.append(_DEEP if run > 1 and starts and ends else _STAR)
            at += run
        elif here == b"[":
            one = _class(text, at + 1)
            if one is None:
                return None
            at, regex = one
            found.append(regex)
        elif here == b"\\":
            if at + 1 == len(text):
                return None
            found.append(b"/" if text[at + 1 : at + 2] == b"/" else re.escape(text[at + 1 : at + 2]))
            at += 2
        else:
            found.append(_ANY if here == b"?" else re.escape(here))
            at += 1
    return found


def _class(text: bytes, at: int) -> tuple[int, bytes] | None:
    """A bracket expression: its end, and a regular expression; None if it is malformed."""
    negated = text[at : at + 1] in (b"!", b"^")
    at += negated
    allowed: set[int] = set()
    before = None  # the byte that a range may begin with
    first = True
    while True:
        if at >= len(text):
            return None
        here = text[at]
        if here == ord("]") and not first:
            break
        first = False
        if here == ord("-") and before is not None and text[at + 1 : at + 2] not in (b"", b"]"):
            at += 2 if text[at + 1 : at + 2] == b"\\" else 1
            if at >= len(text):
                return None
            allowed.update(range(before, text[at] + 1))
            before = None
        elif text[at : at + 2] == b"[:":
            end = text.find(b"]", at + 2)
            if end < 0:
                return None
            if end < at + 3 or text[end - 1] != ord(":"):
                allowed.add(here)
                before = here
            else:
                named = _CLASSES.get(text[at + 2 : end - 1])
                if named is None:
                    return None
                allowed.update(named.encode())
                before = None
                at = end
        else:
            at += here == ord("\\")
            if at >= len(text):
                return None
            before = text[at]
            allowed.add(before)
        at += 1
    allowed = (set(range(256)) - allowed if negated else allowed) - {ord("/")}
    if not allowed:
        return at + 1, rb"(?!)"
    return at + 1, b"[" + b"".join(b"\\x%02x-\\x%02x" % run for run in _runs(allowed)) + b"]"


def _runs(numbers: set[int]) -> list[tuple[int, int]]:
    starts = [number for number in sorted(numbers) if number - 1 not in numbers]
    ends = [number for number in sorted(numbers) if number + 1 not in numbers]
    return list(zip(starts, ends, strict=True))


def _regex(tokens: list[bytes]) -> bytes:
    """A regular expression that takes time as the pattern times the path, whatever they are."""
    stretches: list[list[bytes]] = [[]]  # names between two `**`
    name: list[bytes] = []
    for token in [*tokens, b"/"]:
        if token != b"/":
            name.append(token)
        elif name == [_DEEP]:
            stretches.append([])
            name = []
        else:
            stretches[-1].append(_name(name))
            name = []
    if not stretches[-1]:
        stretches[-1].append(rb"(?s:.)*[^/]")  # `**` at the end: everything below
    regex = b"/".join(stretches[0])
    if len(stretches) == 1:
        return regex
    regex += b"/" if regex else b""
    for stretch in stretches[1:-1]:
        if stretch:
            regex += rb"(?>(?:[^/]*/)*?" + b"/".join(stretch) + b"/)"
    return regex + rb"(?:[^/]*/)*" + b"/".join(stretches[-1])


def _name(tokens: list[bytes]) -> bytes:
    """One name. Each stretch between stars is taken at its first place, the last one at the end."""
    stretches: list[bytes] = [b""]
    for token in tokens:
        if token in (_STAR, _DEEP):
            stretches.append(b"")
        else:
            stretches[-1] += token
    if len(stretches) == 1:
        return stretches[0]
    if not any(stretches):
        return rb"[^/]+"
    middle = b"".join(rb"(?>[^/]*?" + stretch + b")" for stretch in stretches[1:-1] if stretch)
    return b"(?>" + stretches[0] + middle + rb"[^/]*" + stretches[-1] + b"(?![^/]))"
