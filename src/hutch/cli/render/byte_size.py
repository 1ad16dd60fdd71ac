"""Sizes in bytes as text."""

UNITS = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))


def byte_size(size_bytes: int) -> str:
    """A size in the largest unit that fits."""
    for unit, size in UNITS:
        if size_bytes >= size:
            return f"{size_bytes / size:.1f} {unit}"
    return f"{size_bytes} bytes"
