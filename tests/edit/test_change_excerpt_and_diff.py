"""Excerpts and diffs of a change."""

from hutch.edit.change_excerpt_and_diff import (
    MAX_DIFF_LINES,
    Window,
    change_window,
    clip,
    number_lines,
    numbered_excerpt,
    unified_diff,
)
from hutch.edit.span_mapping_across_edits import Replacement, apply_replacements, compose


def changed(content: str, *edits: tuple[str, str]) -> Window:
    made = [Replacement(content.index(old), content.index(old) + len(old), new) for old, new in edits]
    return change_window(content, apply_replacements(content, made), compose((), made))


LINES = "".join(f"line {number}\n" for number in range(1, 41))


def test_lines_are_numbered_as_in_a_listing() -> None:
    assert number_lines(["a", "", "\tb"], 9) == "     9\ta\n    10\t\n    11\t\tb"


def test_long_lines_are_cut_and_lone_surrogates_replaced() -> None:
    assert clip("x " * 6_000, 4) == "x x … (+11,996 characters)"
    assert clip("a\udcff") == "a\ufffd"


def test_changes_are_shown_with_three_lines_around_and_merged_when_near() -> None:
    edits = [("line 5\n", "five\nfive and a half\n"), ("line 8\n", ""), ("line 30", "thirty")]
    assert numbered_excerpt(changed(LINES, *edits)) == (
        "     2\tline 2\n     3\tline 3\n     4\tline 4\n     5\tfive\n     6\tfive and a half\n"
        "     7\tline 6\n"
        "     8\tline 7\n     9\tline 9\n    10\tline 10\n    11\tline 11\n"
        "     …\n"
        "    27\tline 27\n    28\tline 28\n    29\tline 29\n    30\tthirty\n"
        "    31\tline 31\n    32\tline 32\n    33\tline 33"
    )


def test_an_excerpt_is_limited_and_names_the_remaining_lines() -> None:
    window = changed("a\n", ("a\n", "x\n" * 1_000))
    assert (
        numbered_excerpt(window, max_lines=2)
        == "     1\tx\n     2\tx\n     …\t(998 more lines, to line 1000)"
    )
    spread = changed(LINES, ("line 1\n", "x\n"), ("line 20\n", "y\n"), ("line 40\n", "z\n"))
    assert numbered_excerpt(spread, max_lines=4).endswith("     …\n     …\t(2 more places, from line 20)")
    diff = unified_diff("f", "f", window).splitlines()
    assert len(diff) == MAX_DIFF_LINES + 1
    assert diff[-1] == "… (the diff is cut here; read the file from line 1 for the rest)"


def test_a_diff_has_all_changes() -> None:
    assert unified_diff("f", "g", changed("a\nb\r\nc", ("b", "B"), ("c", "C\n"))) == (
        "--- a/f\n+++ b/g\n@@ -1,3 +1,3 @@\n a\n-b\r\n-c\n\\ No newline at end of file\n+B\r\n+C\n"
    )
    assert unified_diff(None, "f", changed("", ("", "a\n"))) == "--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+a\n"


def test_a_window_on_a_large_file_is_small_and_numbered_right() -> None:
    large = "".join(f"line {number}\r\n" for number in range(1, 60_001))
    window = changed(large, ("line 30000\r\n", "changed\r\nand more\r\n"))
    assert len(window.before) < 8_000
    assert not window.starts_text and not window.ends_text
    assert numbered_excerpt(window).splitlines()[3:5] == [" 30000\tchanged", " 30001\tand more"]
    assert "@@ -29997,7 +29997,8 @@" in unified_diff("f", "f", window)


def test_a_window_reaches_to_the_ends_of_the_file_when_they_are_near() -> None:
    large = "x" * 80_000 + "\n" + "y" * 80_000 + "\nlast"
    window = changed(large, ("last", "end"))
    assert (window.first, window.starts_text, window.ends_text) == (0, True, True)


def test_no_half_of_a_secret_is_left_where_a_line_is_cut() -> None:
    key = "sk-ant-" + "K3y" * 20
    for before in range(240, 301):
        shown = clip(f"{'x ' * (before // 2)}{'(' * (before % 2)}{key}) and so on {'y ' * 200}")
        assert key in shown or "sk-" not in shown
    assert clip(key * 100) == "… (+6,700 characters)"
