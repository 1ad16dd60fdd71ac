"""A text is cut between words."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.truncation_before_redaction import first_words, last_words


@given(st.text(alphabet="ab \n"), st.integers(0, 20))
def test_only_whole_words_of_the_chosen_end_remain(text: str, max_chars: int) -> None:
    first, last = first_words(text, max_chars), last_words(text, max_chars)
    if len(text) <= max_chars:
        assert (first, last) == (text, text)
        return
    assert len(first) <= max_chars and len(last) <= max_chars
    words = text.split()
    assert first.split() == words[: len(first.split())]
    assert last.split() == words[len(words) - len(last.split()) :]


def test_as_many_words_as_fit_remain() -> None:
    assert (first_words("one two three", 7), last_words("one two three", 9)) == ("one two", "two three")
    assert (first_words("one two three", 6), last_words("one two three", 8)) == ("one", "three")
    assert (first_words("oneword", 3), last_words("oneword", 3)) == ("", "")
