"""The symbols and references of files, by the grammar of their language."""

import pytest

from hutch.edit.syntax_parser import ParseFailed
from hutch.workspace.code_search.symbols_and_references import Symbol, language_of, parse_file

PYTHON = """import os
from a.b import helper

LIMIT = 3


class Engine(Base):
    def start(self):
        helper(os.getcwd())
        return self.go()
"""
TYPESCRIPT = """import { deep } from "./deep";
export interface Shape { size: number }
export const run = () => deep(new Engine());
class Box { open(x: Shape) { run(); } }
"""


def test_python_has_its_definitions_and_uses() -> None:
    parsed = parse_file("a.py", PYTHON)
    assert parsed.symbols == [
        Symbol("variable", "LIMIT", 4, 4),
        Symbol("class", "Engine", 7, 10),
        Symbol("function", "start", 8, 10),
    ]
    assert parsed.references == {"helper": [2, 9], "Base": [7], "getcwd": [9], "go": [10]}


@pytest.mark.parametrize(
    ("path", "text", "symbols", "used"),
    [
        ("a.ts", TYPESCRIPT, {"Shape", "run", "Box", "open"}, {"deep", "Engine", "run", "Shape"}),
        ("a.tsx", "const A = () => <Page><Item /></Page>;\n", {"A"}, {"Page", "Item"}),
        ("a.js", "class A { m() { b(); } }\nfunction c() {}\n", {"A", "m", "c"}, {"b"}),
        (
            "a.go",
            "package a\ntype T struct{}\nfunc (t T) Run() { fmt.Println(do()) }\n",
            {"T", "Run"},
            {"Println", "do"},
        ),
        ("a.sh", "f() { ls; }\nf\n", {"f"}, {"ls", "f"}),
        ("a.md", "# Top\ntext\n## Below\nmore\n", {"Top", "Below"}, set()),
        ("a.txt", "# Top\n", set(), set()),
    ],
)
def test_languages_have_symbols(path: str, text: str, symbols: set[str], used: set[str]) -> None:
    parsed = parse_file(path, text)
    assert {symbol.name for symbol in parsed.symbols} == symbols
    assert set(parsed.references) == used


def test_headings_reach_to_the_next() -> None:
    assert parse_file("a.md", "intro\n# One\ntext\n## Two\nmore\n").symbols == [
        Symbol("heading", "One", 2, 3),
        Symbol("heading", "Two", 4, 5),
    ]
    assert parse_file("a.md", "no heading\n").symbols == []


def test_text_that_breaks_a_grammar_is_an_error() -> None:
    with pytest.raises(ParseFailed):
        parse_file("a.py", "(" * 3_000_000)


def test_languages_have_names() -> None:
    assert [language_of(path) for path in ("a.PY", "x/b.tsx", "c.md", "d.rs", "e")] == [
        *("Python", "TSX", "Markdown", "", "")
    ]
