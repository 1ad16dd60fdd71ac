"""A line that is typed, key by key."""

import pytest

from hutch.cli.screens.line_editor import Leave, LineEditor, Submit, Suspend

LEFT, RIGHT, UP, DOWN, HOME = b"\x1b[D", b"\x1b[C", b"\x1b[A", b"\x1b[B", b"\x1b[H"


def typed(*keys: bytes) -> LineEditor:
    editor = LineEditor()
    for key in keys:
        editor.feed(key)
    return editor


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        ([b"hello"], "hello", 5),
        ([b"helo", LEFT, b"l"], "hello", 4),
        ([b"hello", b"\x7f\x7f"], "hel", 3),
        ([b"one two  ", b"\x17"], "one ", 4),
        ([b"one two", b"\x15"], "", 0),
        ([b"one two", HOME, b"\x0b"], "", 0),
        ([b"bc", b"\x01a"], "abc", 1),
        ([b"ab", LEFT, b"\x1b[3~"], "a", 1),
        ([b"ab", RIGHT, RIGHT, b"c"], "abc", 3),
        (["grün".encode()[:3], "grün".encode()[3:]], "grün", 4),
        ([b"\x1b", b"[", b"D"], "[D", 2),  # Escape alone clears; what follows is text
        ([b"a\x1b[200~b\r\nc\x1b[201~d"], "ab\ncd", 5),
        ([b"a\x1b[200~b", b"c\x1b[201~"], "abc", 3),
        ([b"a\x1b\rb"], "a\nb", 3),
        ([b"a\x07\x00b"], "ab", 2),
    ],
)
def test_keys_make_a_line(keys: list[bytes], text: str, cursor: int) -> None:
    editor = typed(*keys)
    assert (editor.text, editor.cursor) == (text, cursor)


def test_enter_submits_the_line() -> None:
    editor = LineEditor()
    assert editor.feed(b"one\rtwo") == [Submit("one")]
    assert editor.text == "two"


def test_history_is_recalled_and_the_draft_survives() -> None:
    editor = typed(b"one\r", b"two\r", b"thr", UP, UP)
    assert editor.text == "one"
    editor.feed(DOWN + DOWN)
    assert editor.text == "thr"


def test_a_pasted_newline_sends_nothing() -> None:
    assert LineEditor().feed(b"\x1b[200~rm -rf\r\x1b[201~") == []


def test_leave_and_suspend_keys() -> None:
    editor = LineEditor()
    assert editor.feed(b"\x04") == [Leave()]
    assert editor.feed(b"ab\x01\x04") == []
    assert editor.text == "b"
    assert editor.feed(b"\x03\x1a") == [Leave(), Suspend()]
