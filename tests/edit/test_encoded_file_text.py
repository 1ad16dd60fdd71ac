"""Content, lines and line ends."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.edit.encoded_file_text import (
    Text,
    common_ending,
    ending,
    separate_line_ends,
    split_lines,
    with_endings,
    without_ending,
)


def test_lines_end_with_crlf_lf_or_cr_and_nothing_else() -> None:
    content = "a\r\nb\nc\rd\fe\x0bf\x1cg\u2028h\u0085i"
    assert split_lines(content) == ["a\r\n", "b\n", "c\r", "d\fe\x0bf\x1cg\u2028h\u0085i"]
    assert [ending(line) for line in split_lines(content)] == ["\r\n", "\n", "\r", ""]
    assert without_ending("x\r\n") == "x"


@pytest.mark.parametrize(
    ("content", "near", "end"),
    [
        ("a\nb\n", "", "\n"),
        ("a\r\nb\r\nc\n", "", "\r\n"),
        ("a\r\nb\r\nc\n", "c\n", "\n"),  # as its neighbours
        ("a\rb\rc\n", "a\rc\n", "\r"),  # neighbours differ: as most of the file
        ("a\r\nb\n", "", "\r\n"),  # as many of each: the first
        ("", "", "\n"),
        ("a", "", "\n"),
    ],
)
def test_a_new_line_ends_as_its_neighbours_or_else_the_file(content: str, near: str, end: str) -> None:
    assert common_ending(content, near) == end


def test_new_text_gets_the_files_line_ends() -> None:
    assert with_endings("a\nb\r\nc\rd", "\r\n") == "a\r\nb\r\nc\r\nd"
    assert with_endings("a\nb\r\nc\rd", "\n") == "a\nb\nc\nd"


def test_a_cr_and_an_lf_that_meet_stay_two_line_ends() -> None:
    assert separate_line_ends("a\r", "\n", "b") == "\r\n"
    assert separate_line_ends("a\n", "new\r", "\n") == "new\r\n"
    assert separate_line_ends("a\r\n", "new\n", "b") == "new\n"


@pytest.mark.parametrize(
    ("encoding", "new", "words"),
    [
        (
            "latin-1",
            "a → b",
            r"The file is Latin-1, which cannot represent '→' \(U\+2192\).*convert the file to UTF-8",
        ),
        ("cp1251", "naïve", r"cp1251, which cannot represent 'ï' \(U\+00EF\)"),
        ("utf-8", "\ud800", r"UTF-8, which cannot represent '�' \(U\+D800\)"),
        ("utf-8", "a\0", "NUL"),
    ],
)
def test_characters_that_the_encoding_lacks_are_named(encoding: str, new: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        Text("", encoding).check(new)
