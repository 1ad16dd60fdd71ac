"""The project works on any machine, so it names none: no paths of a developer's, no package index."""

import re
from collections.abc import Iterator
from pathlib import Path

NOT_OURS = {".git", ".venv", "node_modules", "dist", ".demo", "__pycache__"}
CACHES = re.compile(r"\..*_cache|\.hypothesis|.*\.egg-info")
BY_NATURE = {"uv.lock"}  # a lock file names the public index

MACHINE = re.compile(r"(?<![\w.}])/(root|work|Users/\w+)/")
INDEX = re.compile(r"\b(pypi\.org|pythonhosted\.org|npmjs\.(org|com)|crates\.io)\b")


def test_no_file_names_a_machine_or_an_index(root: Path) -> None:
    forbidden = re.compile(f"{MACHINE.pattern}|{INDEX.pattern}|(?<![\\w.]){re.escape(str(root))}\\b")
    named = [
        f"{path.relative_to(root)}:{number}: {line.strip()[:100]}"
        for path in _files(root)
        for number, line in enumerate(_lines(path), start=1)
        if forbidden.search(line)
    ]
    assert named == []


def _files(directory: Path) -> Iterator[Path]:
    for path in sorted(directory.iterdir()):
        if path.name in NOT_OURS | BY_NATURE or CACHES.fullmatch(path.name) or path == Path(__file__):
            continue
        if path.is_dir() and not path.is_symlink():
            yield from _files(path)
        elif path.is_file():
            yield path


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except UnicodeDecodeError:
        return []  # not text
