"""The page about the architecture names existing files, and each package and word once."""

import re
from pathlib import Path

NAMED = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|json|md))`")
WALK = re.compile(r"^\| \d+ \| `([^`]+)` \|", re.MULTILINE)
LISTED = re.compile(r"^  ([a-z_]+(?:/|\.py))(?=\s)", re.MULTILINE)
MAX_WALK_FILES = 10


def test_every_file_that_it_names_exists(root: Path) -> None:
    page = (root / "docs/ARCHITECTURE.md").read_text()
    places = (root / "src/hutch", root)
    assert [name for name in NAMED.findall(page) if not any((at / name).exists() for at in places)] == []


def test_a_request_for_code_is_followed_in_few_files(root: Path) -> None:
    walk = WALK.findall((root / "docs/ARCHITECTURE.md").read_text())
    assert 0 < len(walk) <= MAX_WALK_FILES
    assert [name for name in walk if not (root / "src/hutch" / name).exists()] == []


def test_each_package_is_listed_once(root: Path) -> None:
    page = (root / "docs/ARCHITECTURE.md").read_text()
    packages = {f"{path.parent.name}/" for path in (root / "src/hutch").glob("*/__init__.py")}
    tree = page.partition("```text")[2].partition("```")[0]
    assert sorted(LISTED.findall(tree)) == sorted([*packages, "logs.py"])


def test_each_word_of_the_glossary_is_explained_once(root: Path) -> None:
    glossary = (root / "docs/ARCHITECTURE.md").read_text().partition("## Glossary")[2].partition("\n## ")[0]
    words = [word for row in re.findall(r"^\| ([^|]+) \|", glossary, re.M)[2:] for word in row.split(", ")]
    assert words
    assert sorted(words) == sorted(set(words))
