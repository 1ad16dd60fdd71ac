"""Values of settings, written as TOML."""

import json
from typing import Any

from pydantic import ByteSize

from hutch.settings.schema import size_text


def to_toml(value: Any) -> str:
    """A value as TOML on one line."""
    match value:
        case list() | tuple():
            return f"[{', '.join(to_toml(part) for part in value)}]"
        case dict():
            return f"{{{', '.join(f'{quote(name)} = {to_toml(part)}' for name, part in value.items())}}}"
        case bool():
            return str(value).lower()
        case ByteSize():
            return quote(size_text(value))
        case str():
            return quote(value)
        case _:
            return str(value)


def quote(text: str) -> str:
    """Quote text as a TOML string in which no character can end it or control the terminal."""
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08X}" for char in quoted)
