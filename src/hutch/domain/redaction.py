"""Secrets never reach the jail, the model, the log or a client.

A `Redactor` knows two things: the values that this installation keeps secret,
and the shapes that well-known credentials have. Both become one regular
expression that walks a text once. Every repeat in it is either possessive or
bounded, so a hostile text costs no more than an honest one of the same length.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from urllib.parse import quote

SHORTEST_VALUE = 8  # a shorter one would blank out ordinary words
SHORTEST_LINE = 12  # of a value of several lines: these are less of a secret each
SHORTEST_BEGINNING = 4  # of a value, that is kept back however long its rest takes to come

MOST_HELD = 64 * 1024  # letters of a stream that may be kept back
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,48}-----")
_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY")
_WORD_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-"
_OPENING = re.compile(
    r"(?:(?<![A-Za-z0-9])|(?<=[0-9;\[]m))"
    r"(?:sk-|AIza|gh[opsur]_|github_pat_|hutch(?:link|invite)?_|A[KS]IA|xox[abceoprs]-|xapp-|eyJ)"
)
_BEFORE_CREDENTIAL = re.compile(r"(?i:authorization)\\?[\"']?\s{0,4}[:=]?[^\n]{0,40}$")
# With what stands before each line: a bar in an exception group, the line's number, the sign in a diff.
_LINE_BREAK = r"(?:[\s|]|\\[nr]){1,64}(?:[0-9]{1,7}[\t:-][\t ]?|[+-])?"

SHAPES: dict[str, str] = {
    "anthropic_key": r"sk-ant-[A-Za-z0-9_-]{16,}+",
    "openai_key": r"sk-(?:(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}+|(?:or-v1-)?[A-Za-z0-9]{20,}+)",
    "google_key": r"AIza[A-Za-z0-9_-]{35}",
    "github_token": r"g(?:h[opsur]_[A-Za-z0-9]{36,}+|ithub_pat_[A-Za-z0-9_]{22,}+)",
    "hutch_token": r"hutch(?:link|invite)?_[A-Za-z0-9]{43}(?![A-Za-z0-9])",
    "aws_key": r"A(?:KIA|SIA)[A-Z2-7]{16}(?![A-Za-z0-9])",
    "slack_token": r"x(?:ox[abceoprs]|app)-[A-Za-z0-9-]{10,}+",
    # Not after "-" or "_" either: these belong to a part, and each would start a new scan of it.
    "jwt": r"e(?<![_-]e)yJ[A-Za-z0-9_-]{8,}+\.eyJ[A-Za-z0-9_-]{8,}+\.[A-Za-z0-9_-]{8,}+",
    "private_key": (
        r"-----BEGIN [A-Z0-9 ]{0,32}PRIVATE KEY(?: BLOCK)?-----"
        rf"(?:{_LINE_BREAK}[A-Za-z-]{{1,20}}: [^\n\\]{{1,120}}){{0,4}}+"
        rf"{_LINE_BREAK}[A-Za-z0-9+/=]{{16,}}+(?:{_LINE_BREAK}[A-Za-z0-9+/=]{{4,}}+)*+"
        rf"(?:{_LINE_BREAK}-----END [A-Z0-9 ]{{0,32}}PRIVATE KEY(?: BLOCK)?-----)?"
    ),
}
# Each of these texts is in whatever has such a shape. Most texts have none, which is seen much sooner so.
SIGNS = (
    *("sk-", "AIza", "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "AKIA", "ASIA"),
    *("hutch_", "hutchlink_", "hutchinvite_", "xox", "xapp-", "eyJ", "-----BEGIN "),
)
_AUTHORIZATION = (
    r"(?i:uthorization)\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?(?i:bearer|basic|token)\s{1,4}"
    r"[A-Za-z0-9._~+/=-]{8,}+"
)
_CREDENTIAL_BEGUN = re.compile(rf"[aA]{_AUTHORIZATION.removesuffix('{8,}+')}*$")


def _alternatives() -> Iterator[str]:
    """The shapes as the engine likes them.

    Each begins with a plain letter, so that a search skips from one such letter to the
    next (seven times as fast), and ends with an empty group that tells which one it was.
    """
    for name, shape in SHAPES.items():
        first, rest = shape[0], shape[1:]
        # A credential starts where a word does, or right after an escaped newline or a colour code.
        start = rf"(?:(?<![A-Za-z0-9]{first})|(?<=\\[nrt]{first})|(?<=[0-9;\[]m{first}))"
        yield f"{first}{start}{rest}(?P<{name}>)"
    yield f"a{_AUTHORIZATION}(?P<authorization>)"
    yield f"A{_AUTHORIZATION}(?P<Authorization>)"


def _parts(value: str) -> Iterator[str]:
    """A value, and each of its lines, since many a text is shown line by line."""
    yield value
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        # Not the frame of a key: every key has it, and without it another one is not recognised.
        yield from (line for line in lines if len(line) >= SHORTEST_LINE and not line.startswith("-----"))


def _spellings(value: str) -> set[str]:
    """A value as it stands, inside a JSON string, inside a URL, and inside what Python's `repr` gives."""
    # The quotes around it depend on the rest of the string, and so whether ' is escaped: with a " it is.
    printed = {
        repr('"' + value)[2:-1],
        ascii('"' + value)[2:-1],
        repr(b'"' + value.encode(errors="surrogatepass"))[3:-1],
    }
    return {
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe="", errors="surrogatepass"),
        *printed,
        *(text.replace("\\'", "'") for text in printed),
    }


def _known(text: str) -> str:
    """A spelling as a pattern; its lines may have been indented, or begin with a bar."""
    return re.escape(text).replace("\\\n", r"\r?\n[ \t|]{0,64}")


class Redactor:
    """Replaces secrets in texts by `[redacted:NAME]`."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.learn(values)

    def learn(self, values: Iterable[str]) -> None:
        """From now on these are the values to hide."""
        long = [value for value in values if len(value) >= SHORTEST_VALUE]
        spellings = {text for value in long for part in _parts(value) for text in _spellings(part)}
        # Longest first: of two values that begin alike, the longer one must go as a whole.
        known = [_known(text) for text in sorted(spellings, key=lambda text: (-len(text), text))]
        self._pattern = re.compile("|".join([*known, *_alternatives()]))
        self._spellings = tuple(spellings)
        # Of a value of several lines the longest one, since what is between them may differ.
        self._signs = (*SIGNS, *{max(text.split("\n"), key=len) for text in spellings})
        # Of values that a word's end does not end, so many letters are held back in a stream.
        self.spaced_letters = max((len(text) for text in spellings if re.search(r"\s", text)), default=0)

    def clean(self, text: str) -> str:
        return self._pattern.sub(_replacement, text) if self._is_suspect(text) else text

    def mask(self, data: bytes) -> bytes:
        """The same bytes with a `*` for each byte of a secret, so that all others stay at their places."""
        text = data.decode("utf-8", "surrogateescape")
        if not self._is_suspect(text):
            return data

        def stars(found: re.Match[str]) -> str:
            return "*" * len(found[0].encode("utf-8", "surrogateescape"))

        return self._pattern.sub(stars, text).encode("utf-8", "surrogateescape")

    def _is_suspect(self, text: str) -> bool:
        """Whether there may be a secret in it, at a quarter of what it takes to be sure."""
        return any(sign in text for sign in self._signs) or "uthorization" in text.lower()

    def _find(self, text: str) -> Iterator[re.Match[str]]:
        return self._pattern.finditer(text) if self._is_suspect(text) else iter(())

    def clean_after(self, text: str, place: int) -> str:
        """What follows a place, when all before it was shown: of a secret across it, not the rest either."""
        shown, at = [], place
        for found in self._find(text):
            if found.end() > place:
                shown.append(text[at : max(at, found.start())])
                whole = found.start() >= place
                shown.append(_replacement(found) if whole else f"[redacted:{_name(found)}]")
                at = found.end()
        return "".join([*shown, text[at:]])

    def beginning(self, text: str) -> int:
        """Where the end of a text begins that looks like the first part of a secret; else its length."""
        places = [len(text), *self._begun(text)]
        word = len(text.rstrip(_WORD_LETTERS))
        if found := _OPENING.search(text, word):
            places.append(found.start())
        if found := _CREDENTIAL_BEGUN.search(text):
            places.append(found.start())
        found = _KEY_BEGIN.search(text, max(0, text.rfind("-----BEGIN ")))
        if found and not _KEY_END.search(text, found.start()):
            places.append(found.start())
        return min(places)

    def _begun(self, text: str) -> Iterator[int]:
        """Where known values begin of which the text has not all."""
        for value in self._spellings:
            first, place = value[:SHORTEST_BEGINNING], max(0, len(text) - len(value) + 1)
            while (place := text.find(first, place)) >= 0:
                if value.startswith(text[place:]):
                    yield place
                    break
                place += 1

    def between(self, text: str, place: int) -> int:
        """A place to cut a text at: `place`, or the beginning of the secret that lies across it."""
        across = (found.start() for found in self._find(text) if found.start() < place < found.end())
        return min(across, default=place)

    def held_from(self, data: bytes) -> int:
        """Where the end of bytes begins that is not shown before more has come; else their length."""
        text = data[-MOST_HELD:].decode(errors="surrogateescape")
        begun = self.between(text, self.beginning(text))
        if held := len(text[begun:].encode(errors="surrogateescape")):
            return len(data) - held
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(data[-4:])
        return len(data) - len(decoder.getstate()[0])  # not half a letter either


def excerpt(data: bytes, start: int, end: int, told: Callable[[bytes], str], *, by_line: bool = False) -> str:
    """A part of bytes as they are told, with nothing of a secret that begins before it or goes on after it.

    What is around the part is told too, and then left away: so whatever is shown was in a text without
    secrets. Half a letter at an end belongs to the part that it ends in. `by_line`: where the end of
    what stands before is told otherwise by now, all of its line is shown again.
    """
    whole, before = told(data), told(data[:start])
    first = _alike(before, whole)
    if by_line and first < len(before):
        first = whole.rfind("\n", 0, first) + 1
    last = len(whole) if end >= len(data) else _alike(told(data[:end]), whole)
    return whole[first:last]


def _alike(one: str, other: str) -> int:
    """How many letters two texts have in common from their beginning."""
    alike, differ = 0, min(len(one), len(other)) + 1
    while differ - alike > 1:
        middle = (alike + differ) // 2
        if one[alike:middle] == other[alike:middle]:
            alike = middle
        else:
            differ = middle
    return alike


class CleanStream:
    """The same for a text that comes in pieces, where a secret may lie across two of them.

    What might still become part of a secret is held back: the last word, the rest of a line that
    speaks of an authorization, a private key until it ends.
    """

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._held = ""
        self._seen = 0  # letters of what is held that were shown already

    @property
    def is_empty(self) -> bool:
        """Whether nothing is remembered that what comes could belong to."""
        return not self._held

    def add(self, text: str) -> str:
        """The next letters that are safe to show; perhaps none."""
        self._held += text
        safe = self._safe()
        return self._show(max(safe, self._seen), keep=safe) if safe else ""

    def pause(self) -> str:
        """What can be shown when nothing more comes for now.

        It is remembered: when what comes later makes a secret of it, that is not shown. What looks like
        a secret's beginning is still held back.
        """
        begun = self._redactor.between(self._held, self._redactor.beginning(self._held))
        return self._show(max(begun, self._seen), keep=0)

    def end(self) -> str:
        """The rest."""
        return self._show(len(self._held), keep=len(self._held))

    def cut(self) -> tuple[str, str]:
        """The rest, when what comes next is left out: what can be shown, and what may be half a secret."""
        shown = self.pause()
        hidden = self._held[self._seen :]
        self._held, self._seen = "", 0
        return shown, hidden

    def go_on_after(self, text: str) -> None:
        """Begin again behind a text that is not shown; of a secret that begins in it, nothing is."""
        self._held, self._seen = text, len(text)

    def _show(self, until: int, *, keep: int) -> str:
        """What was not shown yet, up to a place; it is remembered from `keep` on."""
        shown = self._redactor.clean_after(self._held[:until], self._seen)
        self._held, self._seen = self._held[keep:], until - keep
        return shown

    def _safe(self) -> int:
        text = self._held
        if len(text) > MOST_HELD:  # no secret is as long: better a late word than a growing one
            return len(text) - MOST_HELD // 2
        safe = _words_end(text, max(0, len(text) - self._redactor.spaced_letters))
        if (key := text.rfind("-----BEGIN ")) >= 0 and not _KEY_END.search(text, key):
            safe = min(safe, key)
        if found := _BEFORE_CREDENTIAL.search(text):
            safe = min(safe, found.start())
        return self._redactor.between(text, safe)


def _words_end(text: str, most: int) -> int:
    """Where the space behind the last whole word ends, at `most` or before it; 0 when there is none."""
    head = text[:most]
    if text[most : most + 1].isspace():
        head = head.rstrip()  # that space goes on behind it
    if not head or head[-1].isspace():
        return len(head)
    return len(head) - len(head.rsplit(maxsplit=1)[-1])


def _name(found: re.Match[str]) -> str:
    return (found.lastgroup or "secret").lower()


def _replacement(found: re.Match[str]) -> str:
    name, text = _name(found), found[0]
    if name == "authorization":
        # What comes before the credential stays: it says where the secret was.
        return f"{text.removesuffix(text.split()[-1])}[redacted:authorization]"
    return f"[redacted:{name}]"
