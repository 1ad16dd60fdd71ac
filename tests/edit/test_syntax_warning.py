"""Warnings when an edit breaks the syntax of a file."""

import pytest

from hutch.edit.change_excerpt_and_diff import change_window
from hutch.edit.span_mapping_across_edits import Replacement, apply_replacements, compose
from hutch.edit.syntax_warning import syntax_warning


def warning(path: str, content: str, old: str, new: str) -> str | None:
    made = [Replacement(content.index(old), content.index(old) + len(old), new)]
    after = apply_replacements(content, made)
    return syntax_warning(path, content, after, change_window(content, after, compose((), made)))


@pytest.mark.parametrize(
    ("path", "content", "old", "new", "words"),
    [
        ("a.py", "x = 1\ndef f():\n    pass\n", "f():", "f(:", "Python, from line 2: def f(:"),
        ("a.pyi", "x: int\n", "int", "(", "Python, from line 1: x: ("),
        ("a.json", '{\n "a": 1\n}\n', "1", "1 2", 'JSON, from line 2: "a": 1 2'),
        ("a.toml", "[a]\nb = 1\n", "1", "=", "TOML, from line 2: b = ="),
        ("a.yaml", "a:\n  - b\n  - c\n", "- c", "[c", "YAML"),
        ("dir.x/a.YML", "a: b\n", "b", "]", "YAML"),
        ("a.js", "const x = 1;\n", "1", ")", "JavaScript, from line 1: const x = );"),
        ("a.jsx", "const x = <a>b</a>;\n", "</a>", "", "JavaScript"),
        ("a.ts", "const x: number = 1;\n", ": number", ": {", "TypeScript"),
        ("a.tsx", "const x: A = <a>b</a>;\n", "</a>", "", "TSX"),
        ("a.go", "package a\n\nfunc f() {\n}\n", "func f", "func (", "Go"),
    ],
)
def test_a_broken_file_is_reported_with_its_line(
    path: str, content: str, old: str, new: str, words: str
) -> None:
    message = warning(path, content, old, new)
    assert message is not None
    assert message.startswith(f"'{path}' no longer parses as {words}")


@pytest.mark.parametrize(
    ("path", "content", "old", "new"),
    [
        ("a.py", "x = 1\n", "1", "2"),
        ("a.py", "def f(:\n    pass\n", "pass", "return ("),  # was broken before
        ("a.txt", "x = 1\n", "1", "((("),
        ("Makefile", "x = 1\n", "1", "((("),
        ("a.json", '{"a": 1}\n', "1", "[1, 2]"),
        ("a.py", "x = 1\n" * 400_000 + "last = 1\n", "last = 1", "((("),  # too large to say
    ],
)
def test_no_warning_for_valid_or_unknown_files(path: str, content: str, old: str, new: str) -> None:
    assert warning(path, content, old, new) is None


LARGE = "".join(f"def f{number}(x):\r\n    if x:\r\n        return x\r\n\r\n" for number in range(20_000))


def test_a_large_file_is_checked_around_the_change() -> None:
    assert warning("a.py", LARGE, "f15000(x)", "f15000(") == (
        "'a.py' no longer parses as Python, from line 60001: def f15000(:"
    )
    assert warning("a.py", LARGE, "f15000(x)", "renamed(x)") is None


def test_large_json_is_checked_whole() -> None:
    content = "[\n" + "1,\n" * 100_000 + "2\n]\n"
    assert (
        warning("a.json", content, "2\n]", "2,\n]")
        == "'a.json' no longer parses as JSON, from line 100002: 2,"
    )
    assert warning("a.json", content, "2\n]", "3\n]") is None
