"""Names of modules, classes, functions and constants do not use words that were retired."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# Each of these once stood for several things in the code. Prose may use them as ordinary English.
RETIRED = {
    "bell",
    "bells",
    "burial",
    "desk",
    "desks",
    "doors",
    "glance",
    "grounds",
    "heard",
    "hears",
    "house",
    "letter",
    "letters",
    "longest",
    "mend",
    "mended",
    "most",
    "nameless",
    "paper",
    "patience",
    "seat",
    "shortest",
    "site",
    "somebody",
    "spoken",
    "taking",
    "tell",
    "tells",
    "telling",
    "terms",
    "ticket",
    "tickets",
    "tidy",
    "told",
    "wanted",
    "ways",
    "who",
    "wish",
    "wishes",
}


def words(name: str) -> set[str]:
    """The words of a name in snake case, camel case or capitals."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names(root: Path) -> Iterator[tuple[str, str]]:
    """Every name that a module defines, and where."""
    for path in sorted((root / "src/hutch").rglob("*.py")):
        place = str(path.relative_to(root / "src/hutch"))
        yield place, path.stem
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                yield f"{place}:{node.lineno}", node.name
        for statement in tree.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign):
                targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
                for target in targets:
                    if isinstance(target, ast.Name):
                        yield f"{place}:{statement.lineno}", target.id


def test_a_name_is_split_into_its_words() -> None:
    assert words("MAX_IDChars_toldOf") == {"max", "id", "chars", "told", "of"}


def test_no_name_uses_a_retired_word(root: Path) -> None:
    found = [f"{place}: {name}" for place, name in names(root) if words(name) & RETIRED]
    assert found == []
