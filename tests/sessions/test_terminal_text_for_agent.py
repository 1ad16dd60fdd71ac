"""The emulator of terminals: what a screen shows after some output."""

import random

import pytest

from hutch.sessions.terminal_text_for_agent import MAX_HISTORY_LINES, TerminalScreen


def shown(output: str | bytes, columns: int = 10, rows: int = 4) -> list[str]:
    screen = TerminalScreen(columns, rows)
    screen.feed(output if isinstance(output, bytes) else output.encode())
    return screen.display()


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("one\r\ntwo", ["one", "two"]),
        ("0123456789abc", ["0123456789", "abc"]),  # wraps
        ("0123456789\r\nx", ["0123456789", "x"]),  # the cursor waits behind the last column
        ("\x1b[?7l0123456789abc", ["012345678c"]),
        ("10%\r20%", ["20%"]),
        ("abc\b\bX", ["aXc"]),
        ("a\tb", ["a       b"]),
        ("a\nb\nc\nd\ne", [" b", "  c", "   d", "    e"]),  # scrolls
        ("\x1b[2;3Hx\x1b[Hy", ["y", "  x"]),
        ("abcdef\x1b[4G\x1b[K", ["abc"]),
        ("abcdef\x1b[3G\x1b[1K", ["   def"]),
        ("abcdef\x1b[2K!", ["      !"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[J", ["a"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[1J", ["", "", "c"]),
        ("a\r\nb\x1b[2Jc", ["", " c"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[L", ["a", "", "b", "c"]),
        ("a\r\nb\r\nc\x1b[2;1H\x1b[M", ["a", "c"]),
        ("abcdef\x1b[2G\x1b[2P", ["adef"]),
        ("abcdef\x1b[2G\x1b[2@", ["a  bcdef"]),
        ("abcdef\x1b[2G\x1b[2X", ["a  def"]),
        ("abc\x1b[1G\x1b[4hX\x1b[4lY", ["XYbc"]),
        ("a\r\nb\r\nc\r\nd\x1b[2;3r\x1b[3;1H\nX", ["a", "c", "X", "d"]),  # only the margins scroll
        ("a\x1bM\x1bMb", [" b", "", "a"]),
        ("top\x1b[?1049hvi\x1b[2J\x1b[?1049l!", ["top!"]),
        ("\x1b7abc\x1b8X", ["Xbc"]),
        ("\x1b(0lqk\x1b(Bq", ["┌─┐q"]),
        ("-\x1b[4b|", ["-----|"]),
        ("\x1b[31mred\x1b[0m \x1b]0;title\x07t\x1bPq\x1b\\.", ["red t."]),
        ("\x1b[>4;2mx\x1b[?2004hy\x1b[6nz", ["xyz"]),
        ("漢字x", ["漢字x"]),
        ("漢字\x1b[2GX", [" X字"]),
        ("e\u0301x", ["e\u0301x"]),
        ("\x1b[1;1H\x1bcnew", ["new"]),
    ],
)
def test_output_becomes_the_text_of_a_screen(output: str, lines: list[str]) -> None:
    assert shown(output) == lines


def test_output_may_be_cut_anywhere() -> None:
    output = "café\x1b[2;5H漢\x1b]0;title\x1b\\x\x1b(0q\x1b(B\x1b[31;1m!".encode()
    whole = TerminalScreen(20, 5)
    whole.feed(output)
    pieces = TerminalScreen(20, 5)
    for byte in output:
        pieces.feed(bytes([byte]))
    assert pieces.display() == whole.display() == ["café", "    漢x─!"]


def test_lines_that_scroll_off_are_kept_up_to_a_limit() -> None:
    screen = TerminalScreen(10, 3)
    screen.feed("".join(f"{number}\r\n" for number in range(5000)).encode())
    assert screen.display(2) == ["4996", "4997", "4998", "4999"]
    assert len(screen.history) == MAX_HISTORY_LINES
    screen.feed(b"\x1b[3J")
    assert not screen.history


def test_a_full_screen_program_leaves_no_history() -> None:
    screen = TerminalScreen(10, 3)
    screen.feed(b"\x1b[?1049h" + b"x\r\n" * 50 + b"\x1b[?1049l")
    assert not screen.history


def test_a_smaller_screen_keeps_the_line_of_the_cursor() -> None:
    screen = TerminalScreen(10, 4)
    screen.feed(b"a\r\nb\r\nc\r\nlong line$ ")
    screen.resize(6, 2)
    assert (screen.display(9)[:2], screen.y) == (["a", "b"], 1)
    screen.resize(20, 10)
    screen.feed(b"\r\nnext")
    assert "next" in screen.display()


def test_no_output_breaks_it_or_grows_it() -> None:
    chance = random.Random(7)
    alphabet = [
        b"\x1b",
        b"[",
        b"]",
        b"?",
        b";",
        b"9",
        b"99999999999",
        b"m",
        b"H",
        b"J",
        b"L",
        b"@",
        b"b",
        b"r",
        b"S",
    ]
    alphabet += [
        b"\x1bP",
        b"\x07",
        b"\n",
        b"\r",
        b"\t",
        b"x",
        b"\xff",
        "漢".encode(),
        "\u0301".encode(),
        b"\x9b",
    ]
    for _ in range(300):
        screen = TerminalScreen(chance.randint(1, 12), chance.randint(1, 6))
        for _ in range(20):
            screen.feed(b"".join(chance.choices(alphabet, k=40)))
            if chance.random() < 0.1:
                screen.resize(chance.randint(1, 12), chance.randint(1, 6))
            assert 0 <= screen.x < screen.columns and 0 <= screen.y < screen.rows
            assert len(screen.display()) <= screen.rows
            assert all(len(line) <= screen.columns * 8 for line in screen.display())
