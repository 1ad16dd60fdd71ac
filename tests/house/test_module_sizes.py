"""A module that no longer fits in a head is two modules."""

from pathlib import Path

MOST_LINES = 400


def test_no_module_is_too_long(root: Path) -> None:
    lengths = {
        str(path.relative_to(root)): len(path.read_text().splitlines())
        for path in (root / "src").rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}
