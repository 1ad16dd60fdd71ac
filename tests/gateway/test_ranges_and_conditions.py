"""Conditions and ranges of requests, by RFC 9110."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hutch.gateway.http_error_table import RangeNotSatisfiable
from hutch.gateway.rest.ranges_and_conditions import Part, etag, matches, part_of

HASH = "ab" * 32


@pytest.mark.parametrize(
    ("header", "strong", "weak"),
    [
        (etag(HASH), True, True),
        (f"W/{etag(HASH)}", False, True),
        (f'"x", {etag(HASH)}', True, True),
        (f'"x",W/{etag(HASH)}', False, True),
        ("*", True, True),
        (" * ", True, True),
        (HASH, False, False),
        ('"x"', False, False),
        ("", False, False),
        ('"' + HASH, False, False),
    ],
)
def test_which_tags_name_content(header: str, strong: bool, weak: bool) -> None:
    assert (matches(header, HASH), matches(header, HASH, weak=True)) == (strong, weak)


def test_nothing_matches_a_file_that_is_not_there() -> None:
    assert not any(matches(header, None) for header in ("*", etag(HASH), ""))


@given(
    st.text(max_size=40) | st.from_regex(r"bytes=\d{0,20}-\d{0,20}", fullmatch=True), st.integers(0, 2**40)
)
def test_a_range_is_within_the_file_or_refused(header: str, size: int) -> None:
    try:
        part = part_of(header, size)
    except RangeNotSatisfiable as error:
        assert error.size == size
        return
    assert part == Part(0, size, True) or (0 <= part.start < part.end <= size and not part.whole)


def test_an_empty_file_has_no_part() -> None:
    assert part_of(None, 0) == Part(0, 0, True)
    with pytest.raises(RangeNotSatisfiable):
        part_of("bytes=0-0", 0)
