"""Which author wrote which part of a text."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.flows.interviews.text_authorship import AuthoredPart, TextVersion, authored_parts, chars_by_author


def parts(*versions: tuple[str, str]) -> list[tuple[str, str]]:
    found = authored_parts(TextVersion(author, text) for author, text in versions)
    return [(each.author, each.text) for each in found]


def test_each_author_owns_what_they_added() -> None:
    written = parts(
        ("starter", "def f(x):\n    pass\n"),
        ("agent", "def f(x):\n    return x + 1\n"),
        ("ada", "def f(x):\n    return x + 12\n"),
    )
    assert written == [
        ("starter", "def f(x):\n    "),
        ("agent", "return x + 1"),
        ("ada", "2"),
        ("starter", "\n"),
    ]


def test_deleted_text_counts_for_nobody() -> None:
    assert parts(("agent", "a\nb\nc\n"), ("ada", "a\nc\n")) == [("agent", "a\nc\n")]
    assert parts(("agent", "all of it"), ("ada", "")) == []


def test_characters_of_several_bytes_stay_whole() -> None:
    assert parts(("ada", "né"), ("agent", "né🙂"), ("ada", "nè🙂")) == [("ada", "nè"), ("agent", "🙂")]


def test_white_space_is_not_counted() -> None:
    assert chars_by_author([AuthoredPart("ada", "a b\n"), AuthoredPart("agent", "\n\n")]) == {
        "ada": 2,
        "agent": 0,
    }


@given(st.lists(st.tuples(st.sampled_from("abc"), st.text("xy\né🙂", max_size=12)), max_size=8))
def test_the_parts_are_the_last_version(versions: list[tuple[str, str]]) -> None:
    written = parts(*versions)
    assert "".join(text for _, text in written) == (versions[-1][1] if versions else "")
    assert {author for author, _ in written} <= {author for author, _ in versions}
