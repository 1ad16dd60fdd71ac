"""One rule for the indentation of all lines, or none."""

import pytest

from hutch.edit.indent_shift import shift_between


@pytest.mark.parametrize(
    ("quoted", "found", "new", "expected"),
    [
        (["a", "    b"], ["    a", "        b"], ["if x:", "    c", ""], ["    if x:", "        c", ""]),
        (["        a"], ["    a"], ["        b", "            c"], ["    b", "        c"]),
        (["    a", "        b"], ["\ta", "\t\tb"], ["    c", "            d"], ["\tc", "\t\t\td"]),
        (["\ta", "\t\tb"], ["    a", "        b"], ["\t\t\tc"], ["            c"]),
        (
            ["  a", "    b"],
            ["    a", "        b"],
            ["      c"],
            ["            c"],
        ),  # two spaces a level, not four
        (["a"], ["\ta"], ["b", "    c"], ["\tb", "\t\tc"]),
        (["a", "", "b"], ["  a", "", "  b"], ["c"], ["  c"]),
    ],
)
def test_new_lines_are_indented_by_the_same_rule(
    quoted: list[str], found: list[str], new: list[str], expected: list[str]
) -> None:
    shift = shift_between(quoted, found, new, found)
    assert shift is not None
    assert [shift.line(line) for line in new] == expected


@pytest.mark.parametrize(
    ("quoted", "found", "new"),
    [
        (["a", "b"], ["  a", "    b"], []),  # not by one rule
        (["    a"], ["a"], ["  b"]),  # the new line would begin before the margin
        (["", ""], ["", ""], ["x"]),  # nothing to tell it by
        (["\t  a", "b"], ["a", "  b"], []),
    ],
)
def test_without_a_rule_there_is_no_match(quoted: list[str], found: list[str], new: list[str]) -> None:
    assert shift_between(quoted, found, new, found) is None
