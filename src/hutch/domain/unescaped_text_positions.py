"""A text as a person reads it, with a mapping back to the position of each character.

A terminal shows a value whole although colours, a carriage return or the end of a row are in
the middle of it; a URL, JSON and HTML spell some characters in another way. A `View` is the
text without that. Every repeat is bounded, so a hostile text costs no more than its length.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from html import escape, unescape

_ESCAPE = (
    r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI: colours, cursor
    r"|[\]P^_X][^\x07\x1b\x9c]{0,256}(?:\x07|\x1b\\|\x9c)"  # OSC and others with a text
    r"|[ -/]{1,4}[0-~]|[0-OQ-WYZ\\`-~])?"
)
_SPELLED = r"\\(?:x1[bB]|u001[bB]|033|e)\[[0-9;]{0,32}[A-Za-z]"  # a colour, as JSON or `repr` spell it
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f]"
_MARK = r"(?:[0-9]{1,7}[\t:-][\t ]?|[+-])"  # before a line: its number, or its sign in a patch
# Readline writes a space and a carriage return where a line continues on the next row.
_BREAK = r"(?:\r{0,4}\n|(?:\\r){0,2}\\n)(?:[ \t|]|\\t){0,64}"  # literal, or as JSON spells it
_ROW_END = rf"(?: \r(?!\n)|{_BREAK})"

_ANY_CONTROL, _ANY_SPELLED = re.compile(_CONTROL), re.compile(_SPELLED)
ESCAPES = re.compile(_ESCAPE)
CONTROLS = re.compile(rf"{_ESCAPE}|{_SPELLED}| \r(?!\n)|{_CONTROL}")
BREAKS = re.compile(rf"{_ESCAPE}|{_SPELLED}|{_ROW_END}|{_CONTROL}")
MARKED_BREAKS = re.compile(rf"{_ESCAPE}|{_SPELLED}| \r(?!\n)|{_BREAK}(?:{_MARK}[ \t|]{{0,64}})?|{_CONTROL}")
SPELLINGS = re.compile(
    r"%[0-9A-Fa-f]{2}"
    r"|\\(?:u[0-9A-Fa-f]{4}|x[0-9A-Fa-f]{2}|[/\"'\\])"
    r"|&(?:amp|lt|gt|quot|apos|#[0-9]{1,7}|#[xX][0-9A-Fa-f]{1,6});"
)
# An escape sequence that the text ends inside of.
_OPEN_ESCAPE = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]{0,8}|[\]P^_X][^\x07\x1b\x9c]{0,256}\x1b?|[ -/]{0,4})$")
_IN_BREAKS = bytes([*range(33), 127, *b"|+-:\\nrt0123456789"])  # also as JSON spells them


# Keys that erase text before them, as typed or as a terminal shows them; and other control characters.
_ERASER = re.compile(rf"\x08(?: \x08|\x1b\[K)?|{_ESCAPE}| \r(?!\n)|[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
UNFINISHED_ERASURE = re.compile(r"\x08 ?\Z")  # a terminal erases a character with \b, a space, and \b again
_ERASERS = re.compile(r"[\x08\x15\x17\x7f]")
MAX_ERASED_CHARS = 4096  # of one run of text, by one key


class TextView:
    """A text with some of its parts removed or replaced."""

    def __init__(
        self,
        text: str,
        parts: re.Pattern[str] | Iterable[tuple[int, int]],
        decode: Callable[[str], str] | None = None,
    ) -> None:
        # For each run: its start in the view, its start and end in the text, whether it was replaced.
        self._runs: list[tuple[int, int, int, bool]] = []
        self._begins: list[int] = []
        shown: list[str] = []
        here = at = 0

        def add(run: str, there: int, end: int, *, is_replaced: bool = False) -> None:
            nonlocal here
            if run:
                self._runs.append((here, there, end, is_replaced))
                self._begins.append(here)
                shown.append(run)
                here += len(run)

        spans = (each.span() for each in parts.finditer(text)) if isinstance(parts, re.Pattern) else parts
        for start, end in spans:
            add(text[at:start], at, start)
            if decode:
                add(decode(text[start:end]), start, end, is_replaced=True)
            at = end
        add(text[at:], at, len(text))
        self.text = "".join(shown)

    def span(self, start: int, end: int) -> tuple[int, int]:
        """The position in the text of a non-empty part of the view."""
        here, first, _, is_replaced = self._runs[bisect_right(self._begins, start) - 1]
        if not is_replaced:
            first += start - here
        here, there, last, is_replaced = self._runs[bisect_right(self._begins, end - 1) - 1]
        return first, last if is_replaced else there + end - here


def decode_spelling(part: str) -> str:
    """The character, or the byte as Latin-1, that a URL, JSON or HTML spelling stands for."""
    if part[0] == "&":
        return unescape(part)
    if part[0] == "%":
        return chr(int(part[1:], 16))
    return part[1] if part[1] not in "ux" else chr(int(part[2:], 16))


def spelling_pattern(text: str) -> str:
    """A pattern for a text in which any character may have such a spelling."""
    return "".join(_spellings_of_one(ord(each)) for each in text)


def _spellings_of_one(code: int) -> str:
    ways = [re.escape(chr(code)), rf"\\u(?i:{code:04x})", rf"&#(?:0{{0,5}}{code}|[xX](?i:0{{0,5}}{code:x}));"]
    if code < 256:
        ways += [f"%(?i:{code:02x})", rf"\\x(?i:{code:02x})"]
    if (named := escape(chr(code))) != chr(code):
        ways.append(re.escape(named))
    if chr(code) in "/\"'\\":
        ways.append(re.escape("\\" + chr(code)))
    return f"(?:{'|'.join(ways)})"


def has_erasures(text: str) -> bool:
    """True when keys such as backspace may have erased parts of the text."""
    return bool(_ERASERS.search(text))


def erasures(text: str) -> Iterator[tuple[int, int]]:
    """The parts of a text that backspace and its like have erased, with these and with control characters.

    That is the line that a user has typed in the end, as far as no cursor keys were used.
    """
    kept: list[tuple[int, int]] = []  # runs of text
    at = 0
    for found in _ERASER.finditer(text):
        if found.start() > at:
            kept.append((at, found.start()))
        at = found.end()
        if found[0][0] in "\x08\x7f":
            _erase(kept, 1)
        elif found[0] in ("\x15", "\x17"):
            _erase_line(kept, text, only_word=found[0] == "\x17")
    kept.append((at, len(text)))
    at = 0
    for start, end in kept:
        if start > at:
            yield at, start
        at = end


def _erase(kept: list[tuple[int, int]], count: int) -> None:
    """Erase the last characters of the last run."""
    if kept:
        start, end = kept.pop()
        if end - count > start:
            kept.append((start, end - count))


def _erase_line(kept: list[tuple[int, int]], text: str, *, only_word: bool) -> None:
    """Erase the end of a text back to the last line end, or space."""
    while kept:
        start, end = kept.pop()
        first = max(start, end - MAX_ERASED_CHARS)
        erased = text[first:end].rstrip() if only_word else text[first:end]
        if (cut := max(erased.rfind(space) for space in (" \t\r\n" if only_word else "\r\n"))) >= 0:
            kept.append((start, first + cut + 1))
            return


def has_controls(text: str) -> bool:
    """True if `CONTROLS` matches; two searches are faster than one for either."""
    return bool(_ANY_CONTROL.search(text) or _ANY_SPELLED.search(text))


def unfinished_escape_start(text: str) -> int:
    """Where an unfinished escape sequence at the end of the text begins; else the text's length."""
    found = _OPEN_ESCAPE.search(text, max(0, text.rfind("\x1b") - 1))
    return found.start() if found else len(text)


def outline(text: str) -> bytes:
    """A text without the characters of line breaks, indentation, line numbers and patch signs.

    The outline of a text contains the outline of a value even when the value has line breaks in it.
    """
    return text.encode(errors="surrogatepass").translate(None, _IN_BREAKS)
