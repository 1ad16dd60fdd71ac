"""The symbols that a file defines, and the names that it uses, by the grammar of its language.

The grammars run in the confined processes of `edit/syntax_parser.py`. Names are cut, and
are untrusted text like the file itself.
"""

import re
from pathlib import PurePosixPath
from typing import NamedTuple

from hutch.edit.syntax_parser import Grammar, query_matches

MAX_SYMBOLS = 2_000  # of one file
MAX_NAME_CHARS = 80
REFERENCE = "reference"
_HEADING = re.compile(r"^(#{1,6})[ \t]+(\S.{0,200})", re.MULTILINE)

_PYTHON = """
(function_definition name: (identifier) @name) @function
(class_definition name: (identifier) @name) @class
(module (expression_statement (assignment left: (identifier) @name) @variable))
(call function: [(identifier) @name (attribute attribute: (identifier) @name)] @reference)
(import_from_statement name: (dotted_name) @name @reference)
(class_definition superclasses: (argument_list (identifier) @name @reference))
"""
_JAVASCRIPT = """
(function_declaration name: (identifier) @name) @function
(generator_function_declaration name: (identifier) @name) @function
(method_definition name: (property_identifier) @name) @method
(variable_declarator name: (identifier) @name value: [(arrow_function) (function_expression)]) @function
(program (lexical_declaration (variable_declarator name: (identifier) @name) @variable))
(program (export_statement (lexical_declaration (variable_declarator name: (identifier) @name) @variable)))
(call_expression
  function: [(identifier) @name (member_expression property: (property_identifier) @name)] @reference)
(import_specifier name: (identifier) @name @reference)
(new_expression constructor: (identifier) @name @reference)
"""
_TYPESCRIPT = f"""{_JAVASCRIPT}
(class_declaration name: (type_identifier) @name) @class
(abstract_class_declaration name: (type_identifier) @name) @class
(interface_declaration name: (type_identifier) @name) @interface
(type_alias_declaration name: (type_identifier) @name) @type
(enum_declaration name: (identifier) @name) @enum
(type_annotation (type_identifier) @name @reference)
"""
_JSX = """
(jsx_opening_element name: (identifier) @name @reference)
(jsx_self_closing_element name: (identifier) @name @reference)
"""
_GO = """
(function_declaration name: (identifier) @name) @function
(method_declaration name: (field_identifier) @name) @method
(type_spec name: (type_identifier) @name) @type
(const_spec name: (identifier) @name) @constant
(source_file (var_declaration (var_spec name: (identifier) @name) @variable))
(call_expression
  function: [(identifier) @name (selector_expression field: (field_identifier) @name)] @reference)
"""
_BASH = """
(function_definition name: (word) @name) @function
(command name: (command_name) @name @reference)
"""
_PY = Grammar("Python", "tree_sitter_python", query=_PYTHON)
_JS = Grammar(
    "JavaScript",
    "tree_sitter_javascript",
    query=f"{_JAVASCRIPT}{_JSX}(class_declaration name: (identifier) @name) @class",
)
_TS = Grammar("TypeScript", "tree_sitter_typescript", "language_typescript", query=_TYPESCRIPT)
GRAMMARS = {
    **dict.fromkeys((".py", ".pyi"), _PY),
    **dict.fromkeys((".js", ".jsx", ".mjs", ".cjs"), _JS),
    **dict.fromkeys((".ts", ".mts", ".cts"), _TS),
    ".tsx": Grammar("TSX", "tree_sitter_typescript", "language_tsx", query=f"{_TYPESCRIPT}{_JSX}"),
    ".go": Grammar("Go", "tree_sitter_go", query=_GO),
    **dict.fromkeys((".sh", ".bash"), Grammar("Bash", "tree_sitter_bash", query=_BASH)),
}
MARKDOWN = "Markdown"
_MARKDOWN_SUFFIXES = (".md", ".markdown")


class Symbol(NamedTuple):
    """A definition, or a heading of a page. Lines count from 1."""

    kind: str
    name: str
    first_line: int
    last_line: int


class ParsedFile(NamedTuple):
    """The content of a file as an index needs it."""

    symbols: list[Symbol]
    references: dict[str, list[int]]  # the lines that use a name


NOTHING_PARSED = ParsedFile([], {})


def language_of(path: str) -> str:
    """The name of the language that a file is parsed as; empty if it is not parsed."""
    suffix = PurePosixPath(path).suffix.lower()
    grammar = GRAMMARS.get(suffix)
    return grammar.name if grammar else MARKDOWN if suffix in _MARKDOWN_SUFFIXES else ""


def parse_file(path: str, text: str) -> ParsedFile:
    """The symbols and references of a text; raises `ParseFailed`."""
    grammar = GRAMMARS.get(PurePosixPath(path).suffix.lower())
    if grammar is None:
        is_page = language_of(path) == MARKDOWN
        return ParsedFile(_headings(text), {}) if is_page else NOTHING_PARSED
    symbols: dict[tuple[int, str], Symbol] = {}
    references: dict[str, list[int]] = {}
    for kind, name, first, last in query_matches(grammar, text):
        name = name[:MAX_NAME_CHARS]
        if kind == REFERENCE:
            references.setdefault(name, []).append(first + 1)
        elif len(symbols) < MAX_SYMBOLS:  # several patterns may match one definition
            symbols.setdefault((first, name), Symbol(kind, name, first + 1, max(first, last) + 1))
    return ParsedFile(sorted(symbols.values(), key=lambda each: each.first_line), references)


def _headings(text: str) -> list[Symbol]:
    found = []
    line, position = 1, 0
    for match in _HEADING.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        found.append((line, len(match[1]), match[2].strip(" #")[:MAX_NAME_CHARS]))
        if len(found) == MAX_SYMBOLS:
            break
    last = line + text.count("\n", position) - text.endswith("\n")
    lasts = [following[0] - 1 for following in found[1:]] + [max(last, line)] * bool(found)
    return [Symbol("heading", name, first, last) for (first, _, name), last in zip(found, lasts, strict=True)]
