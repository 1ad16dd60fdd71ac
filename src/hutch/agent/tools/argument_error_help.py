"""The shape of a tool's arguments, for a model that got them wrong, and a common mistake that is accepted."""

import json
from collections.abc import Mapping
from typing import Any

WORDS = {"string": "text", "integer": "whole number", "boolean": "true|false"}
NESTED = {"array": list, "object": dict}  # that models sometimes send as text


def describe_shape(schema: Mapping[str, Any]) -> str:
    """A schema in one line: `{path: text, limit?: whole number}`."""
    if "enum" in schema or "const" in schema:
        return "|".join(json.dumps(value) for value in schema.get("enum", [schema.get("const")]))
    if "anyOf" in schema:
        return " or ".join(describe_shape(option) for option in schema["anyOf"])
    match schema.get("type"):
        case "array":
            return f"[{describe_shape(schema.get('items', {}))}, …]"
        case "object":
            required = schema.get("required", ())
            fields = (
                f"{name}{'' if name in required else '?'}: {describe_shape(part)}"
                for name, part in schema.get("properties", {}).items()
            )
            return f"{{{', '.join(fields)}}}"
        case kind:
            return WORDS.get(str(kind), str(kind or "any value"))


def unquote_json(args: Mapping[str, Any], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with lists and objects that were sent as JSON text parsed."""
    parts = schema.get("properties", {})
    return {name: _unquote(value, parts.get(name, {}).get("type")) for name, value in args.items()}


def _unquote(value: Any, kind: str | None) -> Any:
    expected = NESTED.get(kind or "")
    if expected is None or not isinstance(value, str):
        return value
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return parsed if isinstance(parsed, expected) else value
