"""Text that can be sent to anybody."""

from hutch.domain.surrogates import printable


def test_stray_bytes_are_not_sent_to_anybody() -> None:
    assert printable("a\udcffb") == "a\ufffdb"
