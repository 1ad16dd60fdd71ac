"""Text prepared for a model: without terminal escapes, and not too long."""

import re

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_]|[ -/]+[0-~])"
)
PARTIAL_ESCAPE = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|\][^\x07\x1b]*\x1b?|[PX^_][^\x1b]*\x1b?|[ -/]*)?\Z")
PARTIAL_CHARACTER = re.compile(rb"(?:[\xc2-\xdf]|[\xe0-\xef][\x80-\xbf]?|[\xf0-\xf4][\x80-\xbf]{0,2})\Z")
MAX_PARTIAL_BYTES = 4096  # of an escape; a longer one is not held back
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def strip_escapes(text: str) -> str:
    """The text without terminal escapes; of an overwritten line, only its last version."""
    text = ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return CONTROLS.sub("", text)


def without_partial_end(data: bytes) -> bytes:
    """Output without the beginning of a character or of a terminal escape at its end."""
    start = max(0, len(data) - MAX_PARTIAL_BYTES)
    found = PARTIAL_CHARACTER.search(data, max(0, len(data) - 4)) or PARTIAL_ESCAPE.search(data, start)
    return data[: found.start()] if found else data


def shortened(text: str, max_chars: int, *, head: float = 0.5, rest: str = "") -> str:
    """The beginning and the end of a text, and between them how much is omitted; `rest` says where it is."""
    if len(text) <= max_chars:
        return text
    first = int(max_chars * head)
    last = max_chars - first
    omitted = f"[... {len(text) - max_chars:,} characters omitted{f'; {rest}' if rest else ''} ...]"
    return f"{text[:first].rstrip()}\n{omitted}\n{text[len(text) - last :].lstrip()}"


def without_surrogates(text: str) -> str:
    """Join surrogate pairs and replace lone surrogates, which neither the log nor a provider accepts."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
