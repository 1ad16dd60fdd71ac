"""Placeholders for code, and line numbers from a listing."""

import pytest

from hutch.edit.placeholder_and_line_number_detection import (
    find_placeholder,
    leading_line_numbers,
    strip_line_numbers,
)


@pytest.mark.parametrize(
    "line",
    [
        "# ... existing code ...",
        "// ... rest of the code unchanged ...",
        "    // rest of code remains the same",
        "/* ... existing methods ... */",
        "<!-- rest of the file unchanged -->",
        "{/* ... existing code ... */}",
        "-- rest of the function unchanged",
        "# rest of the code unchanged",
        "... rest of file unchanged ...",
        "[... existing content ...]",
        "// (existing code unchanged)",
        "# … existing code …",
        "// ... unchanged",
        "// existing code here",
        "# Rest of your implementation...",
        "; rest of the code",
        "(* ... existing code ... *)",
        "# remaining code stays the same",
        "// ...existing code...",
        "# [rest of the file unchanged]",
        "% rest of the file unchanged",
        "REM rest of the code unchanged",
        "// other methods unchanged",
    ],
)
def test_placeholders_are_seen_in_any_comment(line: str) -> None:
    assert find_placeholder(["x = 1", line], "", shorter=False) == line.strip()


@pytest.mark.parametrize(
    "line",
    [
        "...",
        "    ...",
        "def f(): ...",
        "# other methods",
        "# unchanged",
        "The rest of the code is unchanged.",
        "x = 1  # rest of the code unchanged by the parser",
        "# existing code is loaded from the cache when fresh",
        "# the rest of the arguments are strings",
        "previous section",
        "* other tests",
        "# ...",
    ],
)
def test_code_and_prose_are_no_placeholders(line: str) -> None:
    assert find_placeholder([line], "", shorter=False) is None


def test_a_comment_of_dots_counts_when_code_would_be_lost() -> None:
    assert find_placeholder(["# ..."], "", shorter=True) == "# ..."
    assert find_placeholder(["..."], "", shorter=True) is None  # Python's own


def test_a_result_that_is_already_in_the_file_is_no_error() -> None:
    assert (
        find_placeholder(["  # ... existing code ..."], "a\n# ... existing code ...\n", shorter=True) is None
    )


@pytest.mark.parametrize(
    ("lines", "numbers"),
    [
        (["    12\tfoo", "    13\t", "    14\tbar"], [12, 13, 14]),
        (["12→foo"], [12]),
        (["12\tfoo", "14\tbar"], []),  # not a listing: numbers leave one out
        (["12"], []),
        (["foo", "13\tbar"], []),
        ([], []),
    ],
)
def test_numbers_of_a_listing(lines: list[str], numbers: list[int]) -> None:
    assert leading_line_numbers(lines) == numbers


def test_line_numbers_are_removed() -> None:
    assert strip_line_numbers(["    12\t  foo", "    13"]) == ["  foo", ""]
