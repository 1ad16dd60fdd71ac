"""Text that can be sent to anybody."""

from hutch.domain.lone_surrogate_replacement import replace_surrogates


def test_stray_bytes_are_not_sent_to_anybody() -> None:
    assert replace_surrogates("a\udcffb") == "a\ufffdb"
