"""Messages for values that fail validation, in plain words instead of pydantic's."""

from collections.abc import Mapping
from typing import Any

# By pydantic's error types; names in braces come from the error's context.
SENTENCES = {
    "missing": "It is missing",
    "extra_forbidden": "There is no such field",
    "greater_than": "It must be more than {gt}",
    "greater_than_equal": "It must be at least {ge}",
    "less_than": "It must be less than {lt}",
    "less_than_equal": "It must be at most {le}",
    "multiple_of": "It must be a multiple of {multiple_of}",
    "finite_number": "It must be a finite number",
    "string_too_short": "It must have at least {min_length} characters",
    "string_too_long": "It must have at most {max_length} characters",
    "string_pattern_mismatch": "It must look like {pattern}",
    "string_unicode": "It must be text in UTF-8",
    "too_short": "It must have at least {min_length} parts",
    "too_long": "It must have at most {max_length} parts",
    "literal_error": "It must be {expected}",
    "enum": "It must be {expected}",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "{discriminator} is missing",
    "json_invalid": "It is not JSON: {error}",
    "frozen_field": "It cannot be changed",
    "none_required": "It must be null",
}
KINDS = {  # by the prefix of the error type: int_type, int_parsing, int_from_float and others
    "int_": "a whole number",
    "float_": "a number",
    "decimal_": "a number",
    "bool_": "true or false",
    "string_": "text",
    "bytes_": "text",
    "list_": "a list",
    "tuple_": "a list",
    "set_": "a list without duplicates",
    "frozen_set_": "a list without duplicates",
    "dict_": "an object",
    "model_": "an object",
    "dataclass_": "an object",
    "url_": "an address",
    "json_": "JSON",
}


def describe(error: Mapping[str, Any]) -> str:
    """A sentence about the problem or the allowed values, without a full stop."""
    kind, context = str(error["type"]), error.get("ctx") or {}
    sentence = SENTENCES.get(kind)
    if sentence is not None:
        try:
            return sentence.format(**context)
        except KeyError:  # this version of pydantic gives no such context
            return "It is not valid"
    for prefix, what in KINDS.items():
        if kind.startswith(prefix):
            return f"It must be {what}"
    # A message of a model's own validator, or an error type that is not listed above.
    return str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")


def location(error: Mapping[str, Any]) -> str:
    """The path of the value, with dots: `limits.turns`."""
    return ".".join(str(step) for step in error["loc"])


def describe_with_location(error: Mapping[str, Any], max_chars: int = 100) -> str:
    """The problem with the path of the value: "`limits.turns` must be at least 1"."""
    words, name = describe(error), location(error)[:max_chars]
    if not name:
        return words
    return f"`{name}` {words.removeprefix('It ')}" if words.startswith("It ") else f"`{name}`: {words}"
