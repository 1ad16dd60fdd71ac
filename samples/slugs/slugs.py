"""Turns titles into names for addresses: "Hello, World!" becomes "hello-world"."""

import re
import unicodedata


def slugify(title: str) -> str:
    """Small letters, digits and hyphens; accents are dropped, everything else separates."""
    plain = re.sub(r"[^a-z0-9]+", "-", title.lower())
    plain = unicodedata.normalize("NFKD", plain).encode("ascii", "ignore").decode()
    return plain.strip("-")
