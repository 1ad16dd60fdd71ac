"""A fact that several callers record becomes an event in one place, so it means the same everywhere."""

import ast
from collections import Counter

BUILT_ONCE = {"FileChanged", "FilesChanged", "SnapshotTaken", "RanTests"}


def test_changes_snapshots_and_tests_become_events_in_one_place_each(modules: dict[str, ast.Module]) -> None:
    built = Counter(
        name
        for tree in modules.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and (name := _name(node.func)) in BUILT_ONCE
    )
    assert built == dict.fromkeys(BUILT_ONCE, 1)


def _name(called: ast.expr) -> str:
    match called:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""
