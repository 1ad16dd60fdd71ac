"""What is wrong with a value that somebody gave: in the words of a person and not of a library."""

from collections.abc import Mapping
from typing import Any

# By pydantic's names for what is wrong; what is in braces comes from the fault.
SENTENCES = {
    "missing": "It is missing",
    "extra_forbidden": "There is no such field",
    "greater_than": "It must be more than {gt}",
    "greater_than_equal": "It must be at least {ge}",
    "less_than": "It must be less than {lt}",
    "less_than_equal": "It must be at most {le}",
    "multiple_of": "It must be a multiple of {multiple_of}",
    "finite_number": "It must be a finite number",
    "string_too_short": "It must have at least {min_length} letters",
    "string_too_long": "It must have at most {max_length} letters",
    "string_pattern_mismatch": "It must look like {pattern}",
    "string_unicode": "It must be text in UTF-8",
    "too_short": "It must have at least {min_length} parts",
    "too_long": "It must have at most {max_length} parts",
    "literal_error": "It must be {expected}",
    "enum": "It must be {expected}",
    "union_tag_invalid": "{discriminator} must be one of {expected_tags}",
    "union_tag_not_found": "{discriminator} is missing",
    "json_invalid": "It is no JSON: {error}",
    "frozen_field": "It cannot be changed",
    "none_required": "It must be null",
}
KINDS = {  # by how the names begin: int_type, int_parsing, int_from_float and others
    "int_": "a whole number",
    "float_": "a number",
    "decimal_": "a number",
    "bool_": "true or false",
    "string_": "text",
    "bytes_": "text",
    "list_": "a list",
    "tuple_": "a list",
    "set_": "a list without doubles",
    "frozen_set_": "a list without doubles",
    "dict_": "an object",
    "model_": "an object",
    "dataclass_": "an object",
    "url_": "an address",
    "json_": "JSON",
}


def describe(fault: Mapping[str, Any]) -> str:
    """What is wrong or what is allowed instead, without a full stop."""
    kind, context = str(fault["type"]), fault.get("ctx") or {}
    sentence = SENTENCES.get(kind)
    if sentence is not None:
        try:
            return sentence.format(**context)
        except KeyError:  # the library tells less than it did
            return "It is not as it must be"
    for beginning, what in KINDS.items():
        if kind.startswith(beginning):
            return f"It must be {what}"
    # A sentence of a model's own, or something of the library's that nobody has met yet.
    return str(fault["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ").rstrip(".")


def location(fault: Mapping[str, Any]) -> str:
    """Where it is, with dots: `limits.turns`."""
    return ".".join(str(step) for step in fault["loc"])


def describe_with_location(fault: Mapping[str, Any], longest: int = 100) -> str:
    """What is wrong, and with what: "`limits.turns` must be at least 1"."""
    words, name = describe(fault), location(fault)[:longest]
    if not name:
        return words
    return f"`{name}` {words.removeprefix('It ')}" if words.startswith("It ") else f"`{name}`: {words}"
