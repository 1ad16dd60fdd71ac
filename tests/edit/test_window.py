"""The window of a text around its changes."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.edit.change_excerpt_and_diff import change_window
from hutch.edit.encoded_file_text import split_lines
from hutch.edit.span_mapping_across_edits import Replacement, apply_replacements, compose

LINE = st.sampled_from(["x\n", "y\r\n", "z\r", "\n", "w" * 5_000 + "\n"])


@given(st.lists(LINE, max_size=8), st.lists(LINE, max_size=8), st.text("ab\n\r", max_size=5))
def test_the_lines_of_a_window_have_the_right_numbers(above: list[str], below: list[str], new: str) -> None:
    filler = ["filler line\n"] * 7_000
    before = "".join([*filler, *above, "old", *below, *filler])
    made = [Replacement(before.index("old"), before.index("old") + 3, new)]
    after = apply_replacements(before, made)
    window = change_window(before, after, compose((), made))
    old, all_new = split_lines(before), split_lines(after)
    assert old[window.first : window.first + len(window.before)] == window.before
    assert all_new[window.first : window.first + len(window.after)] == window.after
    rest = old[window.first + len(window.before) :]
    assert all_new[: window.first] + window.after + rest == all_new
    rebuilt = list(window.before)
    for start, end, new_start, new_end in reversed(window.ranges):
        rebuilt[start:end] = window.after[new_start:new_end]
    assert rebuilt == window.after


def test_no_change_is_an_empty_window() -> None:
    assert change_window("a", "a", []).ranges == []
