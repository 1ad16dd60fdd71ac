"""The functions of a source file, with their lines and their cyclomatic complexity.

The complexity is 1 for the function, and 1 for each branch, loop, case, handler and short-circuit operator
in it. A function inside another counts for itself.
"""

from collections.abc import Mapping

from hutch.domain.given_code_test_case import Language
from hutch.edit.syntax_parser import Grammar, SyntaxTree, syntax_tree
from hutch.system.lazy_dataclass import dataclass

_NODE_FUNCTIONS = (
    *("function_declaration", "function_expression", "arrow_function", "method_definition"),
    *("generator_function_declaration", "generator_function"),
)
_NODE_BRANCHES = (
    *("if_statement", "for_statement", "for_in_statement", "while_statement", "do_statement", "switch_case"),
    *("catch_clause", "ternary_expression", "&&", "||", "??"),
)


@dataclass(frozen=True, slots=True)
class _Kinds:
    grammar: Grammar
    functions: tuple[str, ...]
    branches: tuple[str, ...]


_KINDS: Mapping[Language, _Kinds] = {
    "python": _Kinds(
        Grammar("Python", "tree_sitter_python"),
        ("function_definition",),
        (
            *("if_statement", "elif_clause", "for_statement", "while_statement", "except_clause"),
            *("conditional_expression", "boolean_operator", "case_clause", "for_in_clause", "if_clause"),
        ),
    ),
    "javascript": _Kinds(Grammar("JavaScript", "tree_sitter_javascript"), _NODE_FUNCTIONS, _NODE_BRANCHES),
    "typescript": _Kinds(
        Grammar("TypeScript", "tree_sitter_typescript", "language_typescript"),
        _NODE_FUNCTIONS,
        _NODE_BRANCHES,
    ),
    "go": _Kinds(
        Grammar("Go", "tree_sitter_go"),
        ("function_declaration", "method_declaration", "func_literal"),
        (
            *("if_statement", "for_statement", "expression_case", "type_case", "communication_case"),
            *("&&", "||"),
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class MeasuredFunction:
    """A function: where it is, and how many paths lead through it."""

    name: str
    line: int  # from 1
    lines: int
    complexity: int


def measure_functions(language: Language, text: str) -> list[MeasuredFunction]:
    """The functions of a file, in order. Raises ParseFailed. Blocks the thread."""
    kinds = _KINDS[language]
    tree = syntax_tree(kinds.grammar, text)
    data = text.encode("utf-8", "replace")
    open_: list[int] = []  # functions around the present node
    branches: dict[int, int] = {}
    for number, node in enumerate(tree.nodes):
        while open_ and tree.nodes[open_[-1]].depth >= node.depth:
            open_.pop()
        if node.kind in kinds.functions and tree.children(number):
            branches[number] = 0
            open_.append(number)
        elif node.kind in kinds.branches and open_:
            branches[open_[-1]] += 1
    return [_measured(tree, data, number, count) for number, count in branches.items()]


def _measured(tree: SyntaxTree, data: bytes, number: int, branches: int) -> MeasuredFunction:
    node = tree.nodes[number]
    first = data.count(b"\n", 0, max(node.start, 0))
    last = data.count(b"\n", 0, max(node.end, 0))
    names = [each for each in tree.children(number) if tree.nodes[each].field == "name"]
    name = tree.text(names[0])[:80] if names else "(without a name)"
    return MeasuredFunction(name, first + 1, last - first + 1, 1 + branches)
