"""Numbers of bytes as text."""

UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def readable_size(count: int) -> str:
    """A number of bytes in the largest unit that it reaches, with four digits."""
    for unit, name in UNITS:
        if count >= unit:
            return f"{count / unit:.4g} {name}"
    return f"{count} bytes"
