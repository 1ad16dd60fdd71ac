"""Compares the result of a case with the expected one. Both are JSON values.

The result comes from a jail, so nothing about it is trusted but that it is JSON.
"""

import json
import math
from typing import Any

from hutch.domain.given_code_test_case import CodeCase, Expected, Language

MAX_SHOWN_CHARS = 300
RELATIVE_TOLERANCE = 1e-9  # of numbers that are not integers
MAX_DEPTH = 200


def find_difference(case: CodeCase, language: Language, results: list[Any], error: str) -> str:
    """Why the results of a call or of steps are not the expected ones, as a sentence; empty if they are."""
    if case.call:
        return _difference_of_call(case.expected, language, results, error)
    for number, step in enumerate(case.steps, start=1):
        place = f"Step {number} ({step.call})"
        if number > len(results):
            return f"{place} failed: {error or 'there is no result'}"
        if step.expected is not None and not is_equal(step.expected.value, results[number - 1], language):
            return f"{place}: expected {show(step.expected.value)}, but got {show(results[number - 1])}."
    return f"The code failed: {error}" if error else ""


def _difference_of_call(expected: Expected | None, language: Language, results: list[Any], error: str) -> str:
    if expected is not None and expected.fails:
        return "" if error else f"Expected an error, but got {show(results[0] if results else None)}."
    if error:
        return f"The call failed: {error}"
    if not results:
        return "The call has no result."
    if expected is None or is_equal(expected.value, results[0], language):
        return ""
    return f"Expected {show(expected.value)}, but got {show(results[0])}."


def find_output_difference(expected: str, printed: str) -> str:
    """Why the output is not as expected. Spaces at the end of lines and empty last lines are ignored."""
    wanted, found = _lines(expected), _lines(printed)
    for number, (want, have) in enumerate(zip(wanted, found, strict=False), start=1):
        if want != have:
            return f"Line {number}: expected {show(want)}, but got {show(have)}."
    if len(wanted) != len(found):
        return f"Expected {len(wanted)} lines, but got {len(found)}."
    return ""


def is_equal(expected: Any, actual: Any, language: Language, depth: int = 0) -> bool:
    """True if two JSON values are equal. A boolean is no number; 1 equals 1.0. In Go nil is an empty list or
    object."""
    if depth > MAX_DEPTH:
        return False
    if language == "go" and actual is None and expected in ([], {}):
        return True
    if isinstance(expected, bool) or isinstance(actual, bool):
        return expected is actual
    if isinstance(expected, int | float) and isinstance(actual, int | float):
        return _is_equal_number(expected, actual)
    if isinstance(expected, list) and isinstance(actual, list):
        return len(expected) == len(actual) and all(
            is_equal(want, have, language, depth + 1) for want, have in zip(expected, actual, strict=True)
        )
    if isinstance(expected, dict) and isinstance(actual, dict):
        return expected.keys() == actual.keys() and all(
            is_equal(want, actual[key], language, depth + 1) for key, want in expected.items()
        )
    return type(expected) is type(actual) and bool(expected == actual)


def show(value: Any) -> str:
    """A JSON value in one short line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= MAX_SHOWN_CHARS else f"{text[:MAX_SHOWN_CHARS]}… ({len(text):,} characters)"


def _is_equal_number(expected: float, actual: float) -> bool:
    if isinstance(expected, int) and isinstance(actual, int):
        return expected == actual
    try:
        return math.isclose(expected, actual, rel_tol=RELATIVE_TOLERANCE, abs_tol=1e-12)
    except OverflowError:
        return False


def _lines(text: str) -> list[str]:
    return "\n".join(line.rstrip() for line in text.splitlines()).rstrip("\n").split("\n")
