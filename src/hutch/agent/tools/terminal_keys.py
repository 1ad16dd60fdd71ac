"""The bytes that a terminal gets for keys with a name."""

import re
from collections.abc import Sequence

from hutch.domain.errors import BadRequest

MAX_KEYS = 50
SHOWN_CHARS = 40
KEYS = {
    "enter": b"\r",
    "return": b"\r",
    "tab": b"\t",
    "backtab": b"\x1b[Z",
    "escape": b"\x1b",
    "esc": b"\x1b",
    "space": b" ",
    "backspace": b"\x7f",
    "delete": b"\x1b[3~",
    "insert": b"\x1b[2~",
    "up": b"\x1b[A",
    "down": b"\x1b[B",
    "right": b"\x1b[C",
    "left": b"\x1b[D",
    "home": b"\x1b[H",
    "end": b"\x1b[F",
    "pageup": b"\x1b[5~",
    "pagedown": b"\x1b[6~",
    **{f"f{number}": b"\x1bO" + b"PQRS"[number - 1 : number] for number in range(1, 5)},
    **{
        f"f{number}": b"\x1b[%d~" % code
        for number, code in enumerate((15, 17, 18, 19, 20, 21, 23, 24), start=5)
    },
}
WITH_CONTROL = re.compile(r"(?:c|ctrl|control)[-+]([a-z@\[\]\\^_])", re.IGNORECASE)
WITH_ALT = re.compile(r"(?:m|a|alt|meta)[-+](.)", re.IGNORECASE | re.DOTALL)


def encode_keys(keys: Sequence[str]) -> bytes:
    """The bytes of these keys: names such as Enter or C-c, or single characters."""
    return b"".join(map(_encode, keys))


def _encode(key: str) -> bytes:
    if named := KEYS.get(key.lower().replace("-", "").replace("_", "")):
        return named
    if found := WITH_CONTROL.fullmatch(key):
        return bytes([ord(found[1].upper()) & 0x1F])
    if found := WITH_ALT.fullmatch(key):
        return b"\x1b" + found[1].encode(errors="replace")
    if len(key) == 1:
        return key.encode(errors="replace")
    raise BadRequest(
        f"There is no key '{key[:SHOWN_CHARS]}'. Use Enter, Tab, Escape, Backspace, Delete, Up, Down, Left, "
        "Right, Home, End, PageUp, PageDown, F1 to F12, C-c for Ctrl, M-x for Alt, or put text into `text`."
    )
