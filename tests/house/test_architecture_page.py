"""The page about the architecture names existing files."""

import re
from pathlib import Path

NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|json|md))`")
WALK = re.compile(r"^\| \d+ \| `([^`]+)` \|", re.MULTILINE)
MAX_WALK_FILES = 10


def test_every_file_that_it_names_exists(root: Path) -> None:
    page = (root / "docs/ARCHITECTURE.md").read_text()
    places = (root / "src/hutch", root)
    assert [name for name in NAMED.findall(page) if not any((at / name).exists() for at in places)] == []


def test_a_request_for_code_is_followed_in_few_files(root: Path) -> None:
    walk = WALK.findall((root / "docs/ARCHITECTURE.md").read_text())
    assert 0 < len(walk) <= MAX_WALK_FILES
    assert [name for name in walk if not (root / "src/hutch" / name).exists()] == []
