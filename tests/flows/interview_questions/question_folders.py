"""A small question for tests, written as files."""

from pathlib import Path

TOML = """\
id = "double"
version = 3
title = "Double a number"
time_minutes = 10
levels = ["consultant", "pair"]
module = "double"

[[rubric]]
name = "Correctness"
description = "All tests pass."
"""
FILES = {
    "question.toml": TOML,
    "statement.md": "# Double\n\nReturn twice the number.\n",
    "hidden.json": '[{"name": "zero", "call": "double", "args": [0], "expected": 0},\n'
    ' {"name": "large", "call": "double", "args": [21], "expected": 42}]\n',
    "python/starter/double.py": "def double(n):\n    raise NotImplementedError\n",
    "python/tests/test_double.py": (
        "import unittest\nfrom double import double\n\n\nclass DoubleTest(unittest.TestCase):\n"
        "    def test_one(self):\n        self.assertEqual(double(1), 2)\n"
    ),
    "python/solution/double.py": "def double(n):\n    return 2 * n\n",
    "python/wrong/constant/double.py": "def double(n):\n    return 2\n",
    "python/wrong/square/double.py": "def double(n):\n    return n * n\n",
}


def write_question(bank: Path, **changes: str | None) -> Path:
    """Write the question into a bank. Names of `changes` have `__` for `/` and `_dot_` for `.`."""
    files = {**FILES, **{_path(name): text for name, text in changes.items()}}
    for path, text in files.items():
        if text is not None:
            (bank / "double" / path).parent.mkdir(parents=True, exist_ok=True)
            (bank / "double" / path).write_text(text)
    return bank / "double"


def _path(name: str) -> str:
    return name.replace("__", "/").replace("_dot_", ".")
