"""Secrets never reach the jail, the model, the log or a client.

A `Redactor` finds the secret values of this installation and the patterns of
well-known credentials. Both become one regular expression that walks a text
once. Every repeat in it is either possessive or bounded, so a hostile text costs
no more than an honest one of the same length. Both are searched for in the text
itself and in views of it (`decoded_text_positions`): without terminal escapes, and for known
values without line breaks and with URL, JSON and HTML spellings decoded.
"""

import codecs
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from urllib.parse import quote, quote_plus

from hutch.domain.credential_patterns import (
    CREDENTIAL_PREFIX,
    KEY_BEGIN,
    KEY_END,
    PARTIAL_CREDENTIAL,
    SIGNS,
    WORD_CHARS,
    shape_patterns,
)
from hutch.domain.known_secret_search import (
    MIN_PREFIX_CHARS,
    is_broken,
    overlapping_chunks,
    partial_starts,
)
from hutch.domain.unescaped_text_positions import (
    BREAKS,
    CONTROLS,
    ESCAPES,
    MARKED_BREAKS,
    SPELLINGS,
    UNFINISHED_ERASURE,
    TextView,
    decode_spelling,
    erasures,
    has_controls,
    has_erasures,
    outline,
    spelling_pattern,
    unfinished_escape_start,
)
from hutch.system.lazy_dataclass import dataclass

MIN_VALUE_CHARS = 8  # shorter values would redact ordinary words
MIN_LINE_CHARS = 12  # of a value with several lines, where each line is searched for by itself

CUT_CONTEXT_CHARS = 64 * 1024  # around a part of a text, to find a secret that crosses its ends
VALUE_CONTEXT_CHARS = 1024  # around a value, for line breaks and colours inside it
MAX_BREAK_CHARS = 160  # before each character of a value that is broken into lines
MAX_HELD_CHARS = 64 * 1024  # of a stream that may be held back


def _value_and_lines(value: str) -> Iterator[str]:
    """A value and each of its lines, since many texts are shown line by line."""
    yield value
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        # Not the first and last line of a key: all keys share them.
        yield from (line for line in lines if len(line) >= MIN_LINE_CHARS and not line.startswith("-----"))


def _spellings(value: str) -> set[str]:
    """A value as it is, and as JSON, URLs and Python's `repr` spell it."""
    # `repr` escapes ' only in a string that also contains ".
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
        quote_plus(value, safe="", errors="surrogatepass"),
        *printed,
        *(text.replace("\\'", "'") for text in printed),
    }


def _spelling_pattern(text: str) -> str:
    """A spelling as a pattern; its lines may have been indented, or begin with a bar."""
    return re.escape(text).replace("\\\n", r"\r?\n[ \t|]{0,64}")


@dataclass(frozen=True, slots=True)
class Span:
    """The position of a secret in a text, and its replacement."""

    start: int
    end: int
    name: str
    instead: str


class Redactor:
    """Replaces secrets in texts by `[redacted:NAME]`."""

    def __init__(self, values: Iterable[str] = ()) -> None:
        self.set_values(values)

    def add_values(self, values: Iterable[str]) -> None:
        """Redact these values too."""
        self.set_values({*self._all_values, *values})

    def set_values(self, values: Iterable[str]) -> None:
        """Replace the values to redact."""
        values = self._all_values = frozenset(values)
        long = [value for value in values if len(value) >= MIN_VALUE_CHARS]
        spellings = {text for value in long for part in _value_and_lines(value) for text in _spellings(part)}
        # Longest first: of two values with the same beginning, the longer one must match.
        known = [_spelling_pattern(text) for text in sorted(spellings, key=lambda text: (-len(text), text))]
        self._pattern = re.compile("|".join([*known, *shape_patterns()]))
        self._spellings = tuple(spellings)
        # The longest line of a value with several lines, since the line breaks may differ.
        self._signs = (*SIGNS, *{max(text.split("\n"), key=len) for text in spellings})
        # Values with spaces continue after the end of a word: so many characters of a stream are held back.
        self.spaced_value_chars = max((len(text) for text in spellings if re.search(r"\s", text)), default=0)
        self._unbroken = {text for each in spellings if len(text := BREAKS.sub("", each)) >= MIN_VALUE_CHARS}
        self._outlines = tuple((text, outline(text)) for text in self._unbroken)
        self._values = {
            text for value in long for text in (value, value.encode(errors="surrogatepass").decode("latin-1"))
        }
        openings = {spelling_pattern(text[:MIN_PREFIX_CHARS]) for text in self._values}
        self._opening = re.compile("|".join(openings)) if openings else None
        self.max_value_chars = max(map(len, spellings), default=0)
        self.window = (
            2 * self.max_value_chars + VALUE_CONTEXT_CHARS
        )  # characters in which a value usually fits

    def redact(self, text: str) -> str:
        return self._render(text, self._find(text))

    def find_secrets(self, text: str) -> set[tuple[str, str]]:
        """The secrets in a text: their kinds (`secret` for a known value), and how they are written."""
        return {(span.name, text[span.start : span.end]) for span in self._find(text)}

    def mask(self, data: bytes) -> bytes:
        """The same bytes with a `*` for each byte of a secret, so that all other bytes keep their position.

        Escape sequences and line ends in the middle of a secret stay.
        """
        text = data.decode("utf-8", "surrogateescape")
        shown, at = [], 0
        for span in self._find(text):
            shown.append(text[at : span.start].encode("utf-8", "surrogateescape"))
            shown.append(_mask_text(text[span.start : span.end]))
            at = span.end
        return b"".join([*shown, text[at:].encode("utf-8", "surrogateescape")]) if shown else data

    def _is_suspect(self, text: str) -> bool:
        """True if the text may contain a secret; takes a quarter of the time of the full search."""
        return any(sign in text for sign in self._signs) or "uthorization" in text.lower()

    def _find(self, text: str) -> list[Span]:
        """All secrets in a text, in order and without overlaps."""
        found = [_span(each) for each in self._pattern.finditer(text)] if self._is_suspect(text) else []
        bare = CONTROLS.sub("", text) if has_controls(text) else text
        if bare is not text:
            found += self._find_among_controls(text, TextView(text, CONTROLS))
            if has_erasures(text):
                found += self._find_among_controls(text, TextView(text, erasures(text)))
        found += self._find_broken(text, bare)
        found += self._find_spelled(text)
        if len(found) > 1:
            found = _merge(sorted(found, key=lambda span: (span.start, -span.end)))
        return found

    def _find_among_controls(self, text: str, view: TextView) -> Iterator[Span]:
        """Secrets with colours, backspaces and the like in them; `view` is the text without these."""
        if not self._is_suspect(view.text):
            return
        for each in self._pattern.finditer(view.text):
            span = _span(each)
            start, end = view.span(span.start, span.end)
            yield Span(start, end, span.name, span.instead + _escapes(text[start:end]))

    def _find_broken(self, text: str, bare: str) -> Iterator[Span]:
        """Known values with line breaks in them; `bare` is the text without control characters."""
        if not self._outlines or not any(sign in bare for sign in ("\n", "\\n")):
            return
        if not self._may_be_broken(bare):
            return
        for start, part in overlapping_chunks(
            text, around=MAX_BREAK_CHARS * self.max_value_chars + VALUE_CONTEXT_CHARS
        ):
            if part is not text and not self._may_be_broken(CONTROLS.sub("", part)):
                continue
            for pattern in (BREAKS, MARKED_BREAKS):
                view = TextView(part, pattern)
                values = [each for each in self._unbroken if each in view.text]
                for span in _find_values(view, values, part):
                    yield replace(span, start=start + span.start, end=start + span.end)

    def _may_be_broken(self, text: str) -> bool:
        """True if a known value may have line breaks in it; takes a tenth of the time of the full search."""
        quick = outline(text)
        return any(is_broken(text, quick, *each) for each in self._outlines)

    def _find_spelled(self, text: str) -> Iterator[Span]:
        """Known values in the spellings of URLs, JSON or HTML."""
        if self._opening and SPELLINGS.search(text) and self._opening.search(text):
            yield from _find_values(TextView(text, SPELLINGS, decode_spelling), self._values, text)

    def _render(self, text: str, spans: list[Span], at: int = 0) -> str:
        shown = []
        for span in spans:
            shown.append(text[at : max(at, span.start)])
            # The secret began before this part, so the text before its credential was shown already.
            shown.append(span.instead if span.start >= at else f"[redacted:{span.name}]")
            at = span.end
        return "".join([*shown, text[at:]])

    def redact_after(self, text: str, position: int) -> str:
        """The redacted text after a position; a secret that crosses the position is redacted, too."""
        return self._render(text, [span for span in self._find(text) if span.end > position], position)

    def partial_secret_start(self, text: str, *, is_edited: bool = False) -> int:
        """The start of a possible first part of a secret at the end of the text; else the text's length.
        `is_edited`: a user types it, and may erase its last characters."""
        places = [self._partial_credential_start(text), *self.partial_value_starts(text, MIN_PREFIX_CHARS)]
        if has_controls(text):
            view = TextView(text, CONTROLS)
            place = self._partial_credential_start(view.text)
            places.append(view.span(place, place + 1)[0] if place < len(view.text) else len(text))
        if is_edited:
            places += self._mistyped_starts(text)
        return min(places)

    def _mistyped_starts(self, text: str) -> Iterator[int]:
        """The starts of known values in the last word, perhaps with mistakes after their beginning."""
        before = max(0, len(text) - self.window)
        tail = UNFINISHED_ERASURE.sub("", text[before:])
        view = TextView(tail, erasures(tail))
        word = len(view.text) - len(re.split(r"\s", view.text)[-1])
        for value in self._values:
            place = view.text.find(value[:MIN_PREFIX_CHARS], word)
            if place >= 0:
                yield before + view.span(place, place + 1)[0]

    def _partial_credential_start(self, text: str) -> int:
        """The same for well-known credentials."""
        places = [len(text)]
        word = len(text.rstrip(WORD_CHARS))
        if found := CREDENTIAL_PREFIX.search(text, word):
            places.append(found.start())
        if found := PARTIAL_CREDENTIAL.search(text):
            places.append(found.start())
        found = KEY_BEGIN.search(text, max(0, text.rfind("-----BEGIN ")))
        if found and not KEY_END.search(text, found.start()):
            places.append(found.start())
        return min(places)

    def partial_value_starts(self, text: str, min_chars: int) -> Iterator[int]:
        """Where known values begin that the text ends with a part of, of at least `min_chars` characters."""
        before = max(0, len(text) - self.window)
        tail = text[before:]
        yield before + unfinished_escape_start(tail)
        yield from (before + place for place in partial_starts(tail, self._spellings, min_chars))
        views = [
            (TextView(tail, each), self._unbroken) for each in (BREAKS, MARKED_BREAKS) if each.search(tail)
        ]
        if has_erasures(tail):
            views.append((TextView(tail, erasures(tail)), self._unbroken))
        if SPELLINGS.search(tail):
            views.append((TextView(tail, SPELLINGS, decode_spelling), self._values))
        for view, values in views:
            for place in partial_starts(view.text, values, min_chars):
                yield before + view.span(place, place + 1)[0]

    def safe_cut(self, text: str, position: int) -> int:
        """A position to cut a text at: `position`, or the start of the secret that crosses it."""
        if not 0 < position < len(text):
            return position
        return min(
            (span.start for span in self._find(text) if span.start < position < span.end), default=position
        )

    def drop_partial_secret(self, text: str) -> str:
        """The start of a longer text, without a possible first part of a secret at its end."""
        return text[: self.safe_cut(text, self.partial_secret_start(text))]

    def held_start(self, data: bytes, *, is_edited: bool = False) -> int:
        """Where the bytes at the end begin that must wait for more input; else the length."""
        text = data[-MAX_HELD_CHARS:].decode(errors="surrogateescape")
        start = self.safe_cut(text, self.partial_secret_start(text, is_edited=is_edited))
        if held := len(text[start:].encode(errors="surrogateescape")):
            return len(data) - held
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        decoder.decode(data[-4:])
        return len(data) - len(decoder.getstate()[0])  # nor half of a character


def mask_across(data: bytes, start: int, end: int, mask: Callable[[bytes], bytes]) -> bytes:
    """The bytes from `start` to `end`, with a `*` for each byte of a secret that crosses either end.

    A secret that lies completely between them stays, to be redacted by its name later.
    """
    part = data[start:end]
    if len(part) == len(data):
        return part
    alone, among = mask(part), mask(data)[start:end]
    if among == alone:
        return part
    # Bytes that are masked only together with their surroundings belong to a secret that is cut.
    pairs = zip(part, alone, among, strict=True)
    return bytes(byte if shown == hidden else hidden for byte, shown, hidden in pairs)


def redacted_excerpt(
    data: bytes,
    start: int,
    end: int,
    redact: Callable[[bytes], str],
    *,
    by_line: bool = False,
    redact_before: Callable[[bytes], str] | None = None,
) -> str:
    """A redacted part of some bytes, without parts of secrets that cross its ends.

    All of the bytes are redacted, and the text around the part is then dropped. Half a character at
    an end belongs to the part that it ends in. `by_line`: if the text before the part is redacted in
    another way by now, its last line is repeated. `redact_before` is the function that redacted the
    text before the part at that time, without the text after it.
    """
    whole, before = redact(data), (redact_before or redact)(data[:start])
    first = _common_prefix_chars(before, whole)
    if by_line and first < len(before):
        first = whole.rfind("\n", 0, first) + 1
    last = len(whole) if end >= len(data) else _common_prefix_chars(redact(data[:end]), whole)
    return whole[first:last]


def _common_prefix_chars(one: str, other: str) -> int:
    """The length of the common prefix of two texts."""
    alike, differ = 0, min(len(one), len(other)) + 1
    while differ - alike > 1:
        middle = (alike + differ) // 2
        if one[alike:middle] == other[alike:middle]:
            alike = middle
        else:
            differ = middle
    return alike


def _find_values(view: TextView, values: Iterable[str], text: str) -> Iterator[Span]:
    for value in values:
        place = -1
        while (place := view.text.find(value, place + 1)) >= 0:
            start, end = view.span(place, place + len(value))
            yield Span(start, end, "secret", "[redacted:secret]" + _escapes(text[start:end]))
            place += len(value) - 1


def _merge(spans: list[Span]) -> list[Span]:
    """Join spans that overlap, under the name of the first."""
    merged = spans[:1]
    for span in spans[1:]:
        last = merged[-1]
        if span.start >= last.end:
            merged.append(span)
        elif span.end > last.end:
            merged[-1] = Span(last.start, span.end, last.name, last.instead)
    return merged


def _escapes(text: str) -> str:
    """The escape sequences in a text, which keep the colour of the text after it."""
    return "".join(ESCAPES.findall(text)) if "\x1b" in text else ""


def _mask_text(text: str) -> bytes:
    """A `*` for each byte of a secret; escapes and line breaks inside it stay."""
    shown, at = [], 0
    for found in BREAKS.finditer(text):
        shown.append(b"*" * len(text[at : found.start()].encode("utf-8", "surrogateescape")))
        shown.append(found[0].encode("utf-8", "surrogateescape"))
        at = found.end()
    return b"".join([*shown, b"*" * len(text[at:].encode("utf-8", "surrogateescape"))])


def _span(found: re.Match[str]) -> Span:
    name, text = (found.lastgroup or "secret").lower(), found[0]
    # The text before the credential stays: it shows where the secret was.
    before = text.removesuffix(text.split()[-1]) if name == "authorization" else ""
    return Span(found.start(), found.end(), name, f"{before}[redacted:{name}]")
