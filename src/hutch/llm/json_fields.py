"""JSON that a server is sent, and JSON that it sent, read by name."""

import json
from typing import Any

import orjson

MAX_TOKENS = 10**12  # that anybody can mean


class Fields:
    """A JSON object; a field that is not there is None."""

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
    """What is sent."""
    try:
        return orjson.dumps(body)
    except (
        orjson.JSONEncodeError
    ):  # half of a letter, or a number beyond all bounds: told, or sent, as always
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()


def count(value: Any) -> int | None:
    """A number of tokens, if it is one."""
    return value if type(value) is int and 0 <= value <= MAX_TOKENS else None
