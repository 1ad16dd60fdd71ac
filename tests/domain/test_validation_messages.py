"""Validation errors are described in plain words, with the allowed values."""

from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from hutch.domain.validation_messages import describe, describe_with_location, location


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Options(BaseModel):
    model_config = ConfigDict(extra="forbid")

    turns: int = Field(1, ge=1, le=9)
    cost: float = Field(1.0, gt=0, allow_inf_nan=False)
    name: str = Field("ada", min_length=2, max_length=5)
    parts: list[str] = Field(default_factory=list, max_length=1)
    role: Literal["member", "observer"] = "member"
    yes: bool = True
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] = Cat(kind="cat")
    odd: int = 1

    @field_validator("odd")
    @classmethod
    def _is_odd(cls, value: int) -> int:
        if value % 2 == 0:
            raise ValueError("Even numbers are not odd.")
        return value


@pytest.mark.parametrize(
    ("value", "at", "message"),
    [
        ({"turns": 0}, "turns", "It must be at least 1"),
        ({"turns": 10}, "turns", "It must be at most 9"),
        ({"turns": "x"}, "turns", "It must be a whole number"),
        ({"turns": 1.5}, "turns", "It must be a whole number"),
        ({"turns": None}, "turns", "It must be a whole number"),
        ({"cost": 0}, "cost", "It must be more than 0.0"),
        ({"cost": "x"}, "cost", "It must be a number"),
        ({"cost": "inf"}, "cost", "It must be a finite number"),
        ({"name": 3}, "name", "It must be text"),
        ({"name": "a"}, "name", "It must have at least 2 characters"),
        ({"name": "abcdef"}, "name", "It must have at most 5 characters"),
        ({"parts": "x"}, "parts", "It must be a list"),
        ({"parts": ["a", "b"]}, "parts", "It must have at most 1 parts"),
        ({"parts": [1]}, "parts.0", "It must be text"),
        ({"role": "king"}, "role", "It must be 'member' or 'observer'"),
        ({"yes": "perhaps"}, "yes", "It must be true or false"),
        ({"pet": {"kind": "cow"}}, "pet", "'kind' must be one of 'cat', 'dog'"),
        ({"pet": {}}, "pet", "'kind' is missing"),
        ({"pet": 3}, "pet", "It must be an object"),
        ({"extra": 3}, "extra", "There is no such field"),
        ({"odd": 2}, "odd", "Even numbers are not odd"),
        ([], "", "It must be an object"),
    ],
)
def test_the_message_of_each_error(value: Any, at: str, message: str) -> None:
    with pytest.raises(ValidationError) as raised:
        Options.model_validate(value)
    [error] = raised.value.errors()
    assert (location(error), describe(error)) == (at, message)


def test_a_field_that_is_missing() -> None:
    with pytest.raises(ValidationError) as raised:
        Cat.model_validate({})
    [error] = raised.value.errors()
    assert describe(error) == "It is missing"


def test_an_unlisted_error_keeps_its_message() -> None:
    assert describe({"type": "new_in_pydantic", "msg": "What?", "loc": ()}) == "What?"
    assert describe({"type": "greater_than", "msg": "Input should", "loc": ()}) == "It is not valid"


def test_the_message_names_the_wrong_field() -> None:
    with pytest.raises(ValidationError) as raised:
        Options.model_validate({"turns": 0, "parts": [1], "extra" * 100: 3, "pet": {}, "odd": 2})
    assert [describe_with_location(error, max_chars=20) for error in raised.value.errors()] == [
        "`turns` must be at least 1",
        "`parts.0` must be text",
        "`pet`: 'kind' is missing",
        "`odd`: Even numbers are not odd",
        "`extraextraextraextra`: There is no such field",
    ]
    with pytest.raises(ValidationError) as raised:
        Options.model_validate([])
    assert [describe_with_location(error) for error in raised.value.errors()] == ["It must be an object"]
