"""Spans of several edits, tied to the text before all of them."""

from hypothesis import given
from hypothesis import strategies as st

from hutch.edit.encoded_file_text import split_lines
from hutch.edit.span_mapping_across_edits import (
    LineRange,
    Replacement,
    Span,
    apply_replacements,
    compose,
    line_ranges,
    position_after,
)


@st.composite
def scripts(draw: st.DrawFn) -> tuple[str, list[list[Replacement]]]:
    text = content = draw(st.text("ab\n\r", max_size=20))
    rounds = []
    for _ in range(draw(st.integers(1, 4))):
        cuts = sorted(draw(st.lists(st.integers(0, len(content)), max_size=6)))
        pairs = zip(cuts[::2], cuts[1::2], strict=False)
        made = [Replacement(start, end, draw(st.text("xy\n\r", max_size=3))) for start, end in pairs]
        rounds.append(made)
        content = apply_replacements(content, made)
    return text, rounds


def _after(text: str, rounds: list[list[Replacement]]) -> tuple[str, list[Span]]:
    spans: list[Span] = []
    for made in rounds:
        spans = compose(spans, made)
        text = apply_replacements(text, made)
    return text, spans


@given(scripts())
def test_text_outside_of_spans_is_the_same_in_both_texts(script: tuple[str, list[list[Replacement]]]) -> None:
    before, rounds = script
    after, spans = _after(before, rounds)
    rebuilt, done = [], 0
    for start, end, new_start, new_end in spans:
        assert done <= start <= end and new_start <= new_end
        rebuilt += [before[done:start], after[new_start:new_end]]
        done = end
    assert "".join([*rebuilt, before[done:]]) == after


@given(scripts())
def test_line_ranges_lead_from_one_text_to_the_other(script: tuple[str, list[list[Replacement]]]) -> None:
    before, rounds = script
    after, spans = _after(before, rounds)
    old, new = split_lines(before), split_lines(after)
    lines, done = [], 0
    for start, end, new_start, new_end in line_ranges(old, new, spans):
        lines += [*old[done:start], *new[new_start:new_end]]
        done = end
    assert [*lines, *old[done:]] == new


def test_equal_lines_at_the_ends_of_a_span_are_no_change() -> None:
    old, new = ["a\n", "b\n", "c\n"], ["a\n", "B\n", "c\n"]
    assert line_ranges(old, new, [Span(0, 6, 0, 6)]) == [LineRange(1, 2, 1, 2)]


def test_positions_before_a_change_stay_and_those_after_it_move() -> None:
    spans = [Span(2, 4, 2, 7)]
    assert position_after(spans, 0, 2) == 0
    assert position_after(spans, 4, 6) == 7
    assert position_after(spans, 3, 5) is None
    assert position_after([Span(2, 2, 2, 5)], 2, 2) == 5  # inserted earlier at the same place: comes first
