"""Text as a model should read it: without what only drives a terminal, and not too long."""

import re

ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]"
    r"|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[PX^_][^\x1b]*(?:\x1b\\)?|[@-Z\\-_]|[ -/]+[0-~])"
)
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain(text: str) -> str:
    """Without terminal escapes; of a line that was written over, what stood last."""
    text = ESCAPES.sub("", text)
    if "\r" in text:
        text = "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))
    return CONTROLS.sub("", text)


def shortened(text: str, most: int, *, head: float = 0.5, rest: str = "") -> str:
    """Its beginning and its end, and between them how much is missing and where that is."""
    if len(text) <= most:
        return text
    first = int(most * head)
    last = most - first
    left_out = f"[... {len(text) - most:,} letters left out{f'; {rest}' if rest else ''} ...]"
    return f"{text[:first].rstrip()}\n{left_out}\n{text[len(text) - last :].lstrip()}"


def whole(text: str) -> str:
    """Without halves of letters, which no log and no provider takes: pairs are joined, others replaced."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
