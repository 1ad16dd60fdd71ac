"""The wiring only makes things: it is small, and nothing below it knows the settings."""

import ast
import io
import tokenize
from pathlib import Path

MAX_WIRING_LINES = 860  # of code, in all of app/
NOT_CODE = (
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
)


def test_the_wiring_stays_small(root: Path) -> None:
    lines = {path.name: _count_code(path.read_text()) for path in (root / "src/hutch/app").rglob("*.py")}
    assert sum(lines.values()) <= MAX_WIRING_LINES, lines


def test_flows_are_given_values_and_never_the_settings(root: Path) -> None:
    wrong = [
        str(path.relative_to(root))
        for path in (root / "src/hutch/flows").rglob("*.py")
        if "hutch.settings" in path.read_text()
    ]
    assert wrong == []


def _count_code(source: str) -> int:
    """Lines with code on them: no blank line, comment or docstring."""
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    code = {
        number
        for token in tokens
        if token.type not in NOT_CODE
        for number in range(token.start[0], token.end[0] + 1)
    }
    return len(code - _docstring_lines(ast.parse(source)))


def _docstring_lines(tree: ast.Module) -> set[int]:
    found: set[int] = set()
    for node in ast.walk(tree):
        if not isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        match node.body:
            case [ast.Expr(value=ast.Constant(value=str())) as first, *_]:
                found.update(range(first.lineno, (first.end_lineno or first.lineno) + 1))
    return found
