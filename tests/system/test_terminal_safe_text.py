"""Nothing in a text from elsewhere drives the terminal."""

import pytest

from hutch.system.terminal_safe_text import one_line, printable, visible

HOSTILE = "a\x1b[2Jb\u202ec\td\ne\ud800é"


def test_unprintable_characters_are_escaped() -> None:
    assert printable(HOSTILE) == r"a\x1b[2Jb\u202ec\td\ne\ud800é"
    assert printable("plain é 漢") == "plain é 漢"


def test_characters_may_be_kept() -> None:
    assert printable("a\nb\tc", keep="\n") == "a\nb\\tc"
    assert visible("a\nb\tc") == "a\\nb\tc"
    assert visible("a\nb\tc", lines=True) == "a\nb\tc"


@pytest.mark.parametrize(
    ("text", "line"), [("a  b\n\n c", "a b c"), ("abcdefgh", "abcde…"), ("\x1b[2J", "\\x1b[…"), ("", "")]
)
def test_one_line_is_the_beginning_on_one_line(text: str, line: str) -> None:
    assert one_line(text, 6) == line
