"""Packages are layered, and imports point strictly down."""

import ast
from collections.abc import Iterator

GROUND = {"domain", "system"}
FIRST = {"store", "jail", "llm", "forge"}
SETTINGS = {"settings"}
FILES = {"edit", "snapshots", "workspace"}
INSIDE = {"agent", "sessions", "flows", "environment"} | FILES | FIRST | GROUND

MAY_IMPORT = {
    "": {"library"},  # hutch itself
    "library": {"cli"} | SETTINGS | GROUND,
    "system": set(),
    "domain": {"system"},
    **dict.fromkeys(FIRST, GROUND),  # never sideways
    "edit": FIRST | GROUND,
    "snapshots": {"edit"} | FIRST | GROUND,
    "workspace": {"snapshots", "edit"} | FIRST | GROUND,
    "environment": FILES | FIRST | GROUND,
    "agent": FILES | FIRST | GROUND,
    "sessions": {"agent"} | FILES | FIRST | GROUND,
    "flows": {"sessions", "agent", "environment"} | FILES | FIRST | GROUND,
    **dict.fromkeys(SETTINGS, SETTINGS | GROUND),
    "logs": SETTINGS | GROUND,
    "app": INSIDE | SETTINGS | {"logs"},
    "gateway": INSIDE
    | SETTINGS
    | {"logs"},  # what it works with is given to it: see gateway/gateway_context.py
    "cli": INSIDE | SETTINGS | {"logs", "app"},
}

# Further allowed imports, with their reasons.
EXCEPTIONS = {
    **dict.fromkeys(
        (
            ("hutch.cli.commands.mcp", "hutch.gateway.mcp.directory_tool_server"),
            ("hutch.cli.commands.mcp", "hutch.gateway.mcp.loopback_http_server"),
            ("hutch.cli.commands.mcp", "hutch.gateway.mcp.early_handshake"),
        ),
        "`hutch mcp serve` is a gateway that is started by hand",
    ),
    (
        "hutch.app.server",
        "hutch.gateway.gateway_context",
    ): "what the gateway is given, and app/ makes",
    ("hutch.cli.commands.up", "hutch.gateway.server_lifecycle"): "`hutch up` is how the gateway is started",
}


def test_every_import_points_down(modules: dict[str, ast.Module]) -> None:
    wrong = [
        f"{importer} imports {imported}"
        for importer, tree in modules.items()
        for imported in _own_imports(importer, tree, modules)
        if not _is_allowed(importer, imported)
    ]
    assert wrong == []


def test_no_exception_has_outlived_its_import(modules: dict[str, ast.Module]) -> None:
    used = {
        (importer, imported)
        for importer in {importer for importer, _ in EXCEPTIONS}
        for imported in _own_imports(importer, modules[importer], modules)
    }
    assert set(EXCEPTIONS) - used == set()


def test_every_package_has_a_layer(modules: dict[str, ast.Module]) -> None:
    assert {_package(name) for name in modules} <= set(MAY_IMPORT)


def _is_allowed(importer: str, imported: str) -> bool:
    here, there = _package(importer), _package(imported)
    return there in {here, "", *MAY_IMPORT.get(here, ())} or (importer, imported) in EXCEPTIONS


def _package(module: str) -> str:
    return [*module.split("."), ""][1]


def _own_imports(importer: str, tree: ast.Module, modules: dict[str, ast.Module]) -> Iterator[str]:
    """The modules of hutch that this one imports, anywhere in it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.split(".")[0] == "hutch")
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{importer} line {node.lineno}: write the import in full"
            if node.module and node.module.split(".")[0] == "hutch":
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    yield whole if whole in modules else node.module
