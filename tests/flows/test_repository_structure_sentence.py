"""The summary of a repository in one sentence."""

import pytest

from hutch.flows.repository_sentence_for_followers import sentence


@pytest.mark.parametrize(
    ("paths", "files", "tests", "expected"),
    [
        (["slug.py"], 1, "", "1 file, Python (1); no tests found"),
        (
            ["a.py", "b/c.PY", "web/x.ts", "web/y.tsx", "README.md", "LICENSE", "z.go", ".py"],
            8,
            "python3 -m pytest",
            "8 files, Python (2), TypeScript (2), Markdown (1), 1 more language; tests: python3 -m pytest",
        ),
        (
            ["a.py", "b.go", "c.rs", "d.md", "e.ts"],
            5,
            "",
            "5 files, Python (1), Go (1), Rust (1), 2 more languages; no tests found",
        ),
        (["data.bin", "\udcff.py\n"], 2, "", "2 files; no tests found"),
        (["a.rs"], 9000, "cargo test", "9000 files, Rust (1) among the first 1; tests: cargo test"),
        (["a.rs"], 1, "evil\x1b[2J" + "x" * 500, "1 file, Rust (1); tests: evil\\x1b[2J" + "x" * 89),
    ],
)
def test_files_languages_and_tests_are_named(paths: list[str], files: int, tests: str, expected: str) -> None:
    assert sentence(paths, files=files, tests=tests) == f"Looked at the repository: {expected}."
