"""The meaning of globs, and their bounded time."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.workspace.globs import glob_pattern


@pytest.mark.parametrize(
    ("pattern", "fits", "fits_not"),
    [
        ("*.py", ["a.py", "x/y/a.py"], ["a.pyc", "a.py/b"]),
        ("src/*.py", ["src/a.py"], ["src/x/a.py", "a.py", "x/src/a.py"]),
        ("src/**/*.py", ["src/a.py", "src/x/y/a.py"], ["a.py"]),
        ("**/test_*.{py,ts}", ["test_a.py", "x/test_b.ts"], ["x/test_c.js"]),
        ("{src,lib}/**", ["src/a", "lib/x/y"], ["bin/a"]),
        ("a?c", ["abc"], ["a/c", "ac"]),
        ("[!a]b", ["cb"], ["ab", "/b"]),
        ("[a-c]x", ["bx"], ["dx"]),
        ("./src/a", ["src/a"], []),
        (r"a\*b", ["a*b"], ["axb"]),
        ("{a,{b,c}}{1,2}", ["a1", "b2", "x/c1"], ["d1", "a"]),
        ("secrets/", ["secrets/a", "x/secrets/y/z"], ["secrets", "other/a"]),
        ("**/**/a/**/**/b", ["a/b", "x/a/y/b"], ["b", "xa/b"]),
        ("a**b", ["ab", "ax/yb"], ["ax/y"]),
        ("*a*b*", ["xaybz", "ab"], ["ba", "a/b"]),
        ("[]^&-]x", ["]x", "^x", "&x", "-x"], ["ax"]),
        ("a+b(c).txt", ["a+b(c).txt"], ["aab(c).txt"]),
    ],
)
def test_what_a_glob_means(pattern: str, fits: list[str], fits_not: list[str]) -> None:
    compiled = glob_pattern(pattern)
    assert [path for path in fits if not compiled.fullmatch(path)] == []
    assert [path for path in fits_not if compiled.fullmatch(path)] == []


def test_an_invalid_glob_is_refused_with_a_reason() -> None:
    with pytest.raises(BadRequest, match="not closed"):
        glob_pattern("{a,b")
    with pytest.raises(BadRequest, match="is invalid"):
        glob_pattern("[z-a]")
    with pytest.raises(BadRequest, match="shorter"):
        glob_pattern("a" * 1001)
    with pytest.raises(BadRequest, match="simpler"):
        glob_pattern("{a,b}" * 20)
    with pytest.raises(BadRequest, match="simpler"):
        glob_pattern("x" * 800 + "{a,b}" * 8)


@pytest.mark.parametrize(
    "pattern",
    [
        "*a" * 25 + "b",
        "**/" * 300 + "b",
        "**a" * 300 + "b",
        "*a/" * 300 + "b",
        "**/*a*a*a*a*a*a*a*a*b/**/*a*a*a*a*a*a*a*a*c",
        "[ab]*" * 190 + "c",
    ],
)
def test_no_pattern_tries_every_way_of_sharing_a_name_among_its_stars(pattern: str) -> None:
    for path in ("a" * 200, "/".join(["a" * 250] * 16)):
        assert not glob_pattern(pattern).fullmatch(path)
