"""A name is imported from where it is defined, so that "go to definition" leads there."""

import ast
from collections.abc import Iterator


def test_nothing_is_imported_through_another_room(modules: dict[str, ast.Module]) -> None:
    wrong = [
        f"{importer} imports {name} from {module}"
        for importer, tree in modules.items()
        for module, name in _imports(tree)
        if module.startswith("hutch.app") and module in modules
        if f"{module}.{name}" not in modules and name not in _defined(modules[module])
    ]
    assert wrong == []


def test_nothing_is_used_through_another_room(modules: dict[str, ast.Module]) -> None:
    wrong = []
    for importer, tree in modules.items():
        names = {name: f"{module}.{name}" for module, name in _imports(tree) if module == "hutch.app"}
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
                module = names.get(node.value.id, "")
                if module in modules and node.attr not in _defined(modules[module]):
                    wrong.append(f"{importer} uses {module}.{node.attr}")
    assert wrong == []


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)


def _defined(tree: ast.Module) -> set[str]:
    found: set[str] = set()
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {each.id for each in targets if isinstance(each, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
    return found
