"""A text is cut between words."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.truncation import first_words, last_words


@given(st.text(alphabet="ab \n"), st.integers(0, 20))
def test_words_are_whole_and_are_those_at_the_end_that_was_asked_for(text: str, most: int) -> None:
    first, last = first_words(text, most), last_words(text, most)
    if len(text) <= most:
        assert (first, last) == (text, text)
        return
    assert len(first) <= most and len(last) <= most
    words = text.split()
    assert first.split() == words[: len(first.split())]
    assert last.split() == words[len(words) - len(last.split()) :]


def test_as_many_words_as_fit_are_kept() -> None:
    assert (first_words("one two three", 7), last_words("one two three", 9)) == ("one two", "two three")
    assert (first_words("one two three", 6), last_words("one two three", 8)) == ("one", "three")
    assert (first_words("oneword", 3), last_words("oneword", 3)) == ("", "")
