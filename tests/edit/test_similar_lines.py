"""The lines that somebody may have meant."""

from hutch.edit.ladder import Page
from hutch.edit.similar_lines import Nearest, nearest

FUNCTIONS = "".join(
    f"def function_{n}(value):\n    total = value * {n}\n    return total\n\n" for n in range(10_000)
)


def test_the_most_alike_lines_of_a_large_file_are_found() -> None:
    near = nearest(
        Page(FUNCTIONS), ["def function_7777(value):", "    totl = value * 7777", "    return total"]
    )
    assert near is not None
    assert (near.start, near.end) == (7777 * 4, 7777 * 4 + 3)
    assert near.likeness > 0.9


def test_blank_lines_around_the_quote_do_not_count() -> None:
    assert nearest(Page("a\nfoo bar baz\nc\n"), ["", "foo bar bax", ""]) == Nearest(1, 2, 10 / 11)


def test_nothing_alike_is_nothing() -> None:
    assert nearest(Page("alpha beta\n"), ["gamma delta"]) is None
    assert nearest(Page(""), ["gamma"]) is None
    assert nearest(Page("alpha\n"), ["", " "]) is None
