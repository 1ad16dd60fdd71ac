"""Classes are declared with a `dataclass` that compiles nothing when a module is imported."""

import ast

STANDARD = {
    "hutch.edit.patch_operation_types": "a hunk caches properties, and so has no slots",
    "hutch.system.lazy_dataclass": "declares what every type checker knows",
}


def test_modules_use_the_dataclass_that_is_cheap_to_import(modules: dict[str, ast.Module]) -> None:
    found = {
        name
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "dataclasses"
        if any(alias.name == "dataclass" for alias in node.names)
    }
    assert found == set(STANDARD)
