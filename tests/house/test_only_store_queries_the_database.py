"""Only `store/` knows SQL, SQLAlchemy and the tables; the other packages call its functions."""

import ast
from collections.abc import Iterator

STORE = "hutch.store"
FORBIDDEN = ("sqlalchemy", "sqlite3", "alembic", "hutch.store.schema")
RUNS_QUERIES = {"fetch", "change"}  # methods of `Rows`, which hand out a connection
ROWS = {"rows", "_rows", "log"}  # names of what has these methods


def test_no_module_outside_of_the_store_imports_a_database(modules: dict[str, ast.Module]) -> None:
    found = [
        f"{name} imports {imported}"
        for name, tree in _outside(modules)
        for imported in _imports(tree)
        if _is_within(imported, FORBIDDEN)
    ]
    assert found == []


def test_no_module_outside_of_the_store_is_handed_a_connection(modules: dict[str, ast.Module]) -> None:
    found = [
        f"{name} line {node.lineno}: {ast.unparse(node.func)}"
        for name, tree in _outside(modules)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and _runs_query(node.func)
    ]
    assert found == []


def _outside(modules: dict[str, ast.Module]) -> Iterator[tuple[str, ast.Module]]:
    return ((name, tree) for name, tree in modules.items() if not _is_within(name, (STORE,)))


def _imports(tree: ast.Module) -> Iterator[str]:
    """Every import, also in functions and for type checkers alone."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _is_within(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def _runs_query(called: ast.expr) -> bool:
    if not isinstance(called, ast.Attribute) or called.attr not in RUNS_QUERIES:
        return False
    owner = called.value
    return (owner.id if isinstance(owner, ast.Name) else getattr(owner, "attr", "")) in ROWS
