"""The lines that a wrong quote probably meant."""

from hutch.edit.fuzzy_match import IndexedText
from hutch.edit.similar_lines import SimilarLines, find_similar_lines

FUNCTIONS = "".join(
    f"def function_{n}(value):\n    total = value * {n}\n    return total\n\n" for n in range(10_000)
)


def test_the_most_similar_lines_of_a_large_file_are_found() -> None:
    near = find_similar_lines(
        IndexedText(FUNCTIONS), ["def function_7777(value):", "    totl = value * 7777", "    return total"]
    )
    assert near is not None
    assert (near.start, near.end) == (7777 * 4, 7777 * 4 + 3)
    assert near.similarity > 0.9


def test_blank_lines_around_the_quote_do_not_count() -> None:
    assert find_similar_lines(IndexedText("a\nfoo bar baz\nc\n"), ["", "foo bar bax", ""]) == SimilarLines(
        1, 2, 10 / 11
    )


def test_without_similar_lines_there_is_no_result() -> None:
    assert find_similar_lines(IndexedText("alpha beta\n"), ["gamma delta"]) is None
    assert find_similar_lines(IndexedText(""), ["gamma"]) is None
    assert find_similar_lines(IndexedText("alpha\n"), ["", " "]) is None
