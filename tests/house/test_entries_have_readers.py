"""Entries of a log reach a client only as `filter_entry` gives them to one reader."""

import ast

AUDIENCE = "hutch.domain.log_entry_audience"
GATEWAY = "hutch.gateway"
RAW_READS = {"read", "page", "follow", "evidence"}  # methods of `EventLog`


def test_only_the_filter_makes_what_can_be_sent(modules: dict[str, ast.Module]) -> None:
    makers = [
        name
        for name, tree in modules.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "VisibleEntry"
    ]
    assert set(makers) == {AUDIENCE}


def test_the_gateway_reads_no_log_by_itself(modules: dict[str, ast.Module]) -> None:
    found = [
        f"{name} line {node.lineno}: {ast.unparse(node.func)}"
        for name, tree in modules.items()
        if name.startswith(GATEWAY)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and _is_raw(node.func)
    ]
    assert found == []


def test_the_gateway_knows_no_entry_that_was_not_shown(modules: dict[str, ast.Module]) -> None:
    found = [
        name
        for name, tree in modules.items()
        if name.startswith(GATEWAY)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "hutch.domain.events"
        if any(alias.name == "Entry" for alias in node.names)
    ]
    assert found == []


def test_the_gateway_reads_inputs_as_a_flow_shows_them(modules: dict[str, ast.Module]) -> None:
    found = [
        name
        for name, tree in modules.items()
        if name.startswith(GATEWAY)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "hutch.store.session_inputs"
    ]
    assert found == []


def _is_raw(function: ast.Attribute) -> bool:
    return function.attr in RAW_READS and ast.unparse(function.value).rpartition(".")[2] in ("log", "_log")
