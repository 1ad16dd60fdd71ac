"""Lines and pieces as rows of a terminal."""

from rich.cells import cell_len

from hutch.cli.render.terminal_line_layout import TerminalLines, coloured, plain
from hutch.cli.render.transcript import Line, ReplyPart


def test_parts_of_a_reply_are_wrapped_between_words() -> None:
    paper = TerminalLines(23)
    assert paper.put([ReplyPart("The quick bro")]) == []
    assert paper.unfinished == "The quick bro"
    assert paper.put([ReplyPart("wn fox jumps\nover")]) == [Line("The quick brown fox"), Line("jumps")]
    assert paper.unfinished == "over"
    assert paper.end() == [Line("over")]
    assert paper.end() == []


def test_a_long_word_is_split_without_loss() -> None:
    paper = TerminalLines(23)
    rows = [line.text for line in paper.put([ReplyPart("漢字" * 20)])]
    assert all(cell_len(row) <= 20 for row in rows)
    assert "".join(rows) + paper.unfinished == "漢字" * 20


def test_a_line_finishes_the_unfinished_one() -> None:
    paper = TerminalLines(40)
    paper.put([ReplyPart("half a ")])
    assert paper.put([Line("a note", "dim", "so: ")]) == [Line("half a "), Line("a note", "dim", "so: ")]


def test_lines_of_a_text_are_indented_below_the_first() -> None:
    assert TerminalLines(40).put([Line("one\ntwo", "you", "you: ")]) == [
        Line("one", "you", "you: "),
        Line("  two", "you"),
    ]


def test_long_lines_are_wrapped_too() -> None:
    rows = TerminalLines(23).put(
        [Line("The quick brown fox jumps", "dim", "so: "), Line("x", "dim", "y" * 50)]
    )
    assert rows[:2] == [Line("The quick brown", "dim", "so: "), Line("  fox jumps", "dim")]
    assert all(cell_len(row.lead + row.text) <= 22 for row in rows)


def test_a_reply_cannot_control_the_terminal() -> None:
    [line] = TerminalLines(200).put([ReplyPart("a\x1b]0;owned\x07b\u202ec", end=True)])
    assert line == Line("a\\x1b]0;owned\\x07b\\u202ec")


def test_colours() -> None:
    assert coloured(Line("x")) == "x"
    assert coloured(Line("x", "dim")) == "\x1b[2mx\x1b[0m"
    assert plain(Line("x", "dim", "so: ")) == "so: x"
