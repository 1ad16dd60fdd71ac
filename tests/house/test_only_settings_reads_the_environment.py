"""One package reads the environment, so that one page can list all variables."""

import ast

READERS = {
    "hutch.settings.author_setting_without_pydantic",
    "hutch.settings.layered_loading",
    "hutch.settings.host_package_index_variables",
    "hutch.settings.installation_paths",
}
NAMES = {"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"}


def test_only_settings_reads_the_environment(modules: dict[str, ast.Module]) -> None:
    readers = {name for name, tree in modules.items() if any(map(_reads_environment, ast.walk(tree)))}
    assert readers <= READERS


def _reads_environment(node: ast.AST) -> bool:
    if isinstance(node, ast.ImportFrom):
        return node.module == "os" and any(alias.name in NAMES for alias in node.names)
    return (
        isinstance(node, ast.Attribute)
        and node.attr in NAMES
        and isinstance(node.value, ast.Name)
        and node.value.id == "os"
    )
