"""Signals, as requests and models write them."""

import pytest

from hutch.domain.signal_names import parse_signal, signal_name


@pytest.mark.parametrize("text", ["TERM", "SIGTERM", "term", "SigTerm", " term ", "15", 15])
def test_one_signal_can_be_written_in_many_ways(text: object) -> None:
    assert parse_signal(text) == 15


@pytest.mark.parametrize(
    "text", ["", "SIG", "TERMINATE", "0", "65", "99999", "-9", 0, 65, -9, True, None, 9.0, "²"]
)
def test_what_is_no_signal_is_refused_with_those_that_are(text: object) -> None:
    with pytest.raises(ValueError, match="Give TERM, INT, KILL"):
        parse_signal(text)


def test_a_signal_is_shown_by_its_name() -> None:
    assert [signal_name(number) for number in (2, 9, 15, 6, 40)] == ["INT", "KILL", "TERM", "ABRT", "40"]
