"""Messages for wrong settings, in plain words instead of pydantic's."""

from pydantic_core import ErrorDetails

from hutch.settings.schema import size_text
from hutch.settings.value_types import SIZE_HINT


def describe(problem: ErrorDetails, *, is_size: bool) -> str:
    """The allowed values, as a sentence without its full stop."""
    bounds = problem.get("ctx", {})
    render = size_text if is_size else str
    match problem["type"]:
        case "greater_than_equal":
            return f"It should be at least {render(bounds['ge'])}"
        case "less_than_equal":
            return f"It should be at most {render(bounds['le'])}"
        case "int_parsing" | "int_type" | "int_from_float" | "int_parsing_size":
            return "It should be a whole number"
        case "byte_size" | "byte_size_unit":
            return SIZE_HINT
        case "string_type":
            return "It should be text"
        case "string_unicode":
            return "It should be text in UTF-8"
        case "string_too_short":
            return "It should not be empty"
        case "string_too_long":
            return f"It should have at most {bounds['max_length']} characters"
        case "tuple_type":
            return "It should be a list"
        case "too_long":
            return f"It should have at most {bounds['max_length']} parts"
        case _:  # a choice among words, or a message of a validator
            return problem["msg"].removeprefix("Value error, ").replace("Input should", "It should", 1)
