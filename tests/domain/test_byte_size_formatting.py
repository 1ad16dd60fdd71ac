"""Numbers of bytes as text."""

from hutch.domain.byte_size_formatting import readable_size


def test_sizes_are_for_people() -> None:
    sizes = (12, 1536, 200 << 20, 5 << 29)
    assert [readable_size(count) for count in sizes] == ["12 bytes", "1.5 KiB", "200 MiB", "2.5 GiB"]
