"""A process that parses, and cannot do anything else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.edit import syntax_parser_program
from hutch.edit.syntax_parser import (
    ANSWER,
    HEADER,
    Grammar,
    ParseFailed,
    allow_list,
    first_error_line,
    query_matches,
    syntax_tree,
)
from hutch.workspace.code_search.symbols_and_references import GRAMMARS

PYTHON = Grammar("Python", "tree_sitter_python")
YAML = Grammar("YAML", "tree_sitter_yaml")
WEB = Path(__file__).resolve().parents[2] / "web" / "src"


def test_the_first_error_line_is_returned() -> None:
    assert first_error_line(PYTHON, "x = 1\r\ny = (\r\n") == 1
    assert first_error_line(PYTHON, "x = 'é'\n") is None
    assert first_error_line(PYTHON, "") is None


def test_a_text_has_its_syntax_nodes() -> None:
    tree = syntax_tree(PYTHON, "é = f(1)\n")
    (statement,) = tree.children(0)
    (assignment,) = tree.children(statement)
    children = [
        (tree.nodes[each].field, tree.nodes[each].kind, tree.text(each)) for each in tree.children(assignment)
    ]
    assert children == [("left", "identifier", "é"), (None, "=", "="), ("right", "call", "f(1)")]
    assert (tree.is_valid, syntax_tree(PYTHON, "x = (").is_valid) == (True, False)


def test_nodes_may_be_deeper_than_recursion_allows() -> None:
    tree = syntax_tree(PYTHON, "(" * 5_000 + "1" + ")" * 5_000)
    assert max(node.depth for node in tree.nodes) > 5_000


def test_both_sides_use_the_same_format() -> None:
    assert (HEADER.format, ANSWER.format) == (
        syntax_parser_program.HEADER.format,
        syntax_parser_program.ANSWER.format,
    )


def test_text_that_breaks_a_grammar_breaks_nothing_else() -> None:
    with pytest.raises(ParseFailed, match="No answer about YAML"):
        first_error_line(YAML, "- " * 2_000 + "1\n")
    assert first_error_line(YAML, "a: b\n") is None  # by another process


def test_a_missing_grammar_fails_to_parse() -> None:
    with pytest.raises(ParseFailed, match="Cobol"):
        first_error_line(Grammar("Cobol", "tree_sitter_cobol"), "x")


@pytest.mark.parametrize(
    "attempt",
    [
        "open('/etc/passwd')",
        "os.system('true')",
        "os.fork()",
        "__import__('socket').socket()",
        "os.kill(os.getppid(), 0)",
        "os.open('/tmp', os.O_RDONLY)",
    ],
)
def test_the_process_may_only_compute(attempt: str) -> None:
    directory = Path(syntax_parser_program.__file__).parent
    script = (
        f"import os, sys; sys.path.insert(0, {str(directory)!r}); import syntax_parser_program, socket\n"
        f"syntax_parser_program._lock_down(bytes.fromhex({allow_list().hex()!r}))\n"
        "os.write(1, b'locked')\n"
        f"{attempt}\nos.write(1, b'out')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=dict(os.environ))
    assert done.stdout == b"locked"
    assert done.returncode < 0  # ended by the kernel


def test_many_texts_with_errors_do_not_end_the_process() -> None:
    """Reading the point of a node corrupts memory in version 0.26 of the library, after some texts."""
    texts = [path.read_text() for path in sorted(WEB.rglob("*.ts")) if path.stat().st_size < 100_000]
    assert len(texts) > 100
    for text in texts:
        query_matches(GRAMMARS[".ts"], f"{text}\n\n# not TypeScript\n")
