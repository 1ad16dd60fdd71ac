"""JSON for requests, and JSON of responses with fields read by name."""

import json
from typing import Any

import orjson

MAX_TOKENS = 10**12  # a larger count is an error of the server


class Fields:
    """A JSON object; a missing field is None."""

    __slots__ = ("data",)

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    def __getattr__(self, name: str) -> Any:
        return fields(self.data.get(name))

    def as_sent(self, name: str) -> Any:
        return self.data.get(name)

    def without_nulls(self) -> dict[str, Any]:
        return {name: value for name, value in self.data.items() if value is not None}


def fields(value: Any) -> Any:
    """JSON whose objects are read by name."""
    if isinstance(value, dict):
        return Fields(value)
    return [fields(part) for part in value] if isinstance(value, list) else value


def as_json(body: dict[str, Any]) -> bytes:
    """The body of a request."""
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError:
        # A huge number, which json can encode; or a lone surrogate, for which encode() raises below.
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def count(value: Any) -> int | None:
    """A number of tokens, or None when the value is not plausible."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None
