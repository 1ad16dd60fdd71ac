"""A module that no longer fits in a head is two modules, and such a function two functions."""

import ast
import statistics
from pathlib import Path

MAX_LINES = 400
MAX_MEDIAN, MAX_P90 = 130, 260  # lines of a module
MAX_FUNCTION_LINES = 60


def test_no_module_is_too_long(root: Path) -> None:
    lengths = {
        str(path.relative_to(root)): len(path.read_text().splitlines())
        for path in (root / "src").rglob("*.py")
    }
    assert {name: lines for name, lines in lengths.items() if lines > MAX_LINES} == {}


def test_most_modules_are_short(root: Path) -> None:
    lengths = sorted(len(path.read_text().splitlines()) for path in (root / "src").rglob("*.py"))
    median, p90 = statistics.median(lengths), lengths[len(lengths) * 9 // 10]
    assert (median <= MAX_MEDIAN, p90 <= MAX_P90) == (True, True), (median, p90)


def test_no_function_is_too_long(modules: dict[str, ast.Module]) -> None:
    found = {
        f"{name}.{node.name}": length
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        if (length := (node.end_lineno or node.lineno) - node.lineno + 1) > MAX_FUNCTION_LINES
    }
    assert found == {}
