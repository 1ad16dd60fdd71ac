"""Ages and moments that users type."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.time_parsing import parse_age_ms, parse_moment_ms

NOW_MS = 1_772_366_400_000  # 2026-03-01T12:00:00Z


@pytest.mark.parametrize(
    ("text", "age_ms"),
    [("30s", 30_000), ("5m", 300_000), ("2h", 7_200_000), (" 7d ", 604_800_000), ("0d", 0)],
)
def test_an_age_is_a_number_with_a_unit(text: str, age_ms: int) -> None:
    assert parse_age_ms(text) == age_ms


@pytest.mark.parametrize("text", ["", "7", "0", "d", "-1d", "1.5h", "7 d", "1d2h", "٣d", "9999999d"])
def test_any_other_age_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is not an age"):
        parse_age_ms(text)


@pytest.mark.parametrize(
    ("text", "before_now_s"),
    [
        ("2h", 7200),
        ("1w", 604_800),
        ("1772366400000", 0),
        ("2026-03-01", 43_200),
        ("2026-03-01T12:00", 0),
        ("2026-03-01 11:59:59.5", 0.5),
        ("2026-03-01T12:00:00Z", 0),
        ("2026-03-01T14:00+02:00", 0),
    ],
)
def test_a_moment_is_an_age_a_date_or_milliseconds(text: str, before_now_s: float) -> None:
    assert parse_moment_ms(text, NOW_MS) == NOW_MS - before_now_s * 1000


@pytest.mark.parametrize(
    "text", ["", "7", "yesterday", "2026-13-01", "2026-03-01T25:00", "12:00", "20260301"]
)
def test_any_other_moment_is_refused(text: str) -> None:
    with pytest.raises(BadRequest, match="is not a time"):
        parse_moment_ms(text, NOW_MS)
