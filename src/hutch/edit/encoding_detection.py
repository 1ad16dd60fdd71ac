"""Detects the encoding of a file: byte order mark, UTF-8, UTF-16, then a guess.

A codec is used only if it reproduces the same bytes, so a wrong guess can show a
wrong character but never changes one that was not edited.

A rewritten file keeps its byte order mark, the encoding that the mark declares, and
CRLF if all of its lines end with it: models write LF without a byte order mark,
whatever they have read. A text that contains CR is written unchanged.
"""

import codecs
import re
from collections.abc import Iterable

from hutch.domain.errors import BadRequest
from hutch.edit.encoded_file_text import BOM, Text

BOMS = (  # the longer first: UTF-32's mark begins with UTF-16's
    (b"\xff\xfe\x00\x00", "utf-32-le"),
    (b"\x00\x00\xfe\xff", "utf-32-be"),
    (b"\xef\xbb\xbf", "utf-8"),
    (b"\xff\xfe", "utf-16-le"),
    (b"\xfe\xff", "utf-16-be"),
)
# Codecs without state: the bytes of a character do not depend on those around it.
_CYRILLIC = ("cp1251", "koi8-r", "cp866")
_OTHERS = ("gb18030", "shift_jis", "euc_jp", "euc_kr", "big5", "cp1250", "cp1253", "cp1254", "cp1255")
_COMMON_CYRILLIC = frozenset("оеаинтсрвлкмдпуОЕАИНТСРВЛКМДПУ")
_CONTROLS = bytes(sorted(set(range(32)) - set(b"\t\n\v\f\r\b\x1a\x1b")))
_HIGH = re.compile(rb"[\x80-\xff]+")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]+")
_SAMPLE_BYTES = 8 * 1024
_STRAY = re.compile("[\udc80-\udcff]")


def decode(data: bytes, evidence: Iterable[str] = ()) -> Text:
    """The text of a file, or BadRequest when it is binary.

    `evidence` is text believed to be in the file; it decides between encodings that are equally likely.
    """
    for bom, encoding in BOMS:
        if data.startswith(bom) and (text := _decoded(data, encoding, bom)):
            return text
    if b"\0" in data:
        text = None if data.startswith((b"\xff\xfe", b"\xfe\xff")) else _utf16(data)
    else:
        text = _decoded(data, "utf-8") or _legacy(data, [each for each in evidence if not each.isascii()])
    if text is None:
        raise BadRequest(
            "The file is binary, not text, so it cannot be edited. Replace it as a whole instead."
        )
    return text


def _decoded(data: bytes, encoding: str, bom: bytes = b"", errors: str = "strict") -> Text | None:
    """Decode, but only if encoding reproduces the same bytes."""
    body = data[len(bom) :]
    try:
        content = body.decode(encoding, errors)
        same = encoding == "utf-8" or content.encode(encoding, errors) == body  # always true for strict UTF-8
    except UnicodeError:
        return None
    return Text(content, encoding, bom, errors) if same else None


def _utf16(data: bytes) -> Text | None:
    """UTF-16 without a mark: many pairs have a zero on the same side, and no control characters."""
    sample = data[:_SAMPLE_BYTES]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    encoding = "utf-16-le" if odd > even else "utf-16-be"
    if len(data) % 2 or min(even, odd) * 20 > max(even, odd) or max(even, odd) * 40 < len(sample):
        return None
    text = _decoded(data, encoding)
    return None if text is None or any(chr(code) in text.content for code in _CONTROLS) else text


def _legacy(data: bytes, evidence: list[str]) -> Text | None:
    """Not UTF-8, or not all of it."""
    if len(data.translate(None, _CONTROLS)) != len(data):
        return None
    sample = _sample(data)
    if _mostly_utf8(sample):
        return _decoded(data, "utf-8", errors="surrogateescape")
    western = "cp1252" if any(byte in data for byte in range(0x80, 0xA0)) else "latin-1"
    for quote in evidence:
        for encoding in (western, *_CYRILLIC, *_OTHERS):
            if _contains(data, quote, encoding) and (text := _decoded(data, encoding)):
                return text
    guess = _guess(sample, western)
    return _decoded(data, guess) if guess else None


def _mostly_utf8(sample: bytes) -> bool:
    stray = len(_STRAY.findall(sample.decode("utf-8", "surrogateescape")))
    starts = len(sample) - len(sample.translate(None, bytes(range(0xC0, 0x100))))
    return starts - stray >= 4 * stray


def _contains(data: bytes, quote: str, encoding: str) -> bool:
    """True if a line of `quote` that is not ASCII is in the data, in this encoding."""
    lines = [line.strip() for line in quote.splitlines() if not line.isascii()]
    try:
        return any(line.encode(encoding) in data for line in lines[:20])
    except UnicodeEncodeError:
        return False


def _sample(data: bytes) -> bytes:
    """Lines of the data that are not ASCII, up to a size: only they show the encoding."""
    lines: list[bytes] = []
    length = position = 0
    while length < _SAMPLE_BYTES and (match := _HIGH.search(data, position)):
        start = max(data.rfind(b"\n", 0, match.start()) + 1, match.start() - 500, position)
        end = data.find(b"\n", match.end()) + 1 or len(data)
        lines.append(data[start : min(end, match.end() + 500)])
        length += len(lines[-1])
        position = start + len(lines[-1])
    return b"".join(lines)


def _guess(sample: bytes, western: str) -> str | None:
    words = [word for word in _WORD.findall(sample) if not word.isascii()]
    mixed = sum(1 for word in words if len(word) == 1 or any(byte < 0x80 for byte in word))
    if mixed * 2 >= len(words):  # accented letters among ASCII ones
        return "shift_jis" if _is_japanese(sample) else western
    high = sum(1 for byte in sample if byte >= 0x80)
    for encoding in _CYRILLIC:
        text = sample.decode(encoding, "replace")
        if sum(map(_COMMON_CYRILLIC.__contains__, text)) * 2 >= high and _is_mostly_lower(text):
            return encoding
    from charset_normalizer import from_bytes

    best = from_bytes(sample, cp_isolation=list(_OTHERS)).best()
    return best.encoding if best else None


def _is_mostly_lower(text: str) -> bool:
    """True if capitals are the exception, as in prose but not in noise."""
    lower = sum(map(str.islower, text))
    return lower * 2 >= sum(map(str.isupper, text)) or text.isupper()


def _is_japanese(sample: bytes) -> bool:
    """Shift-JIS decodes most Western bytes as half-width characters; only kana are a proof."""
    text = sample.decode("shift_jis", "replace")
    kana = sum("\u3040" <= character <= "\u30ff" for character in text)
    return kana * 4 >= sum(not character.isascii() for character in text)


def encode_like(beginning: bytes, content: str) -> tuple[bytes, str]:
    """`content` as bytes for a file that begins with `beginning`, and a sentence about what was preserved."""
    bom, encoding, text = _read(beginning)
    preserved = []
    if bom:
        content = content.removeprefix(BOM)
        preserved.append("its byte order mark")
    if "\n" in content and "\r" not in content and _all_crlf(text):
        content = content.replace("\n", "\r\n")
        preserved.append("its CRLF line ends")
    data = bom + content.encode(encoding, "surrogateescape")
    return data, f" The file keeps {' and '.join(preserved)}." if preserved else ""


def _read(beginning: bytes) -> tuple[bytes, str, str]:
    """Byte order mark, encoding and text; without a mark, UTF-8 and the bytes as Latin-1."""
    for bom, encoding in BOMS:
        if beginning.startswith(bom):
            try:  # the data may end inside of a character
                text = codecs.getincrementaldecoder(encoding)().decode(beginning[len(bom) :])
            except UnicodeDecodeError:
                continue
            return bom, encoding, text
    return b"", "utf-8", beginning.decode("latin-1")


def _all_crlf(text: str) -> bool:
    pairs = text.count("\r\n")
    return pairs > 0 and text.count("\n") == pairs == text.removesuffix("\r").count("\r")
