"""Inputs come from outside and are parsed strictly."""

import pytest
from pydantic import ValidationError

from hutch.domain.inputs import Cancel, End, Message, Prompt, parse_input


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"type": "prompt", "text": "fix it"}, Prompt(text="fix it")),
        ({"type": "message", "text": "hello"}, Message(text="hello")),
        ({"type": "cancel"}, Cancel()),
        ({"type": "end", "reason": "enough"}, End(reason="enough")),
    ],
)
def test_an_input_is_known_by_its_type(data: dict[str, str], expected: object) -> None:
    assert parse_input.validate_python(data) == expected


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"type": "sudo"},
        {"type": "prompt"},
        {"type": "prompt", "text": ""},
        {"type": "cancel", "force": True},
    ],
)
def test_anything_else_is_refused(data: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        parse_input.validate_python(data)
