"""Results are compared as JSON values."""

from typing import Any

import pytest

from hutch.domain.given_code_test_case import CodeCase, Expected, Language, Step
from hutch.flows.code_execution.case_comparison import find_difference, find_output_difference, is_equal


@pytest.mark.parametrize(
    ("expected", "actual", "equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (None, 0, False),
        ("1", 1, False),
        (0.1 + 0.2, 0.3, True),
        (1e300, 1e300 * (1 + 1e-6), False),
        (2**60, 2**60 + 1, False),
        ([1, [2, 3]], [1, [2, 3]], True),
        ([1, 2], [2, 1], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"a": 1, "b": None}, False),
        ([], {}, False),
        (10**400, 1.5, False),
    ],
)
def test_values_are_equal_or_not(expected: Any, actual: Any, equal: bool) -> None:
    assert is_equal(expected, actual, "python") is equal


@pytest.mark.parametrize(("language", "equal"), [("go", True), ("python", False)])
def test_nil_is_an_empty_list_in_go(language: Language, equal: bool) -> None:
    assert is_equal([[], {}, 1], [None, None, 1], language) is equal
    assert not is_equal([1], None, language)


def test_deep_values_do_not_break_the_comparison() -> None:
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    assert not is_equal(deep, deep, "python")


def test_the_first_wrong_step_is_named() -> None:
    steps = tuple(Step(call="next", expected=Expected(value=number)) for number in (1, 2, 3))
    case = CodeCase(name="case", create="Counter", steps=steps)
    assert find_difference(case, "python", [1, 2, 3], "") == ""
    assert find_difference(case, "python", [1, 5, 3], "") == "Step 2 (next): expected 2, but got 5."
    assert find_difference(case, "python", [1], "ValueError: no") == "Step 2 (next) failed: ValueError: no"


def test_spaces_at_the_end_of_lines_are_ignored() -> None:
    assert find_output_difference("a\nb", "a  \nb\n\n") == ""
    assert find_output_difference("a\n b", "a\nb") == 'Line 2: expected " b", but got "b".'
    assert find_output_difference("a", "a\nb") == "Expected 1 lines, but got 2."
