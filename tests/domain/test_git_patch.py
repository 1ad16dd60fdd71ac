"""A patch is read as git prints it, and what content says is never taken for a header."""

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hutch.domain.git_patch import parse_patch
from tests.forge.repositories import commit, git, make_repository

INSIDE = b"""diff --git a/a.txt b/a.txt
index 1..2 100644
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,3 @@
 one
--- a/secret.txt
+++ b/other.txt
+@@ -1,900 +1,900 @@
diff --git a/z.txt b/z.txt
--- a/z.txt
+++ b/z.txt
@@ -5 +5,2 @@ def z():
+new
 same
"""


def test_content_that_looks_like_a_header_is_content() -> None:
    patch = parse_patch(INSIDE)
    assert set(patch.files) == {"a.txt", "z.txt"}
    assert [patch.shows("a.txt", "new", line) for line in (0, 1, 3, 4, 500)] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert [patch.shows("z.txt", "new", line) for line in (4, 5, 6, 7)] == [False, True, True, False]


def test_a_real_diff_of_git(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    make_repository(
        repository, {"a.txt": "1\n2\n3\n", "old name.txt": "x\n" * 9, "gone": "g\n", "b/c": "c\n"}
    )
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "mv", "old name.txt", "nëw name.txt")
    git(repository, "rm", "-q", "gone")
    commit(repository, {"a.txt": "1\n2\n3\n4\n", "b/c": "c\n", 'q"uote': "q\n"})
    printed = git(repository, "diff", "--find-renames", first, "HEAD")
    patch = parse_patch(printed.encode())
    assert set(patch.files) == {"a.txt", "nëw name.txt", "gone", 'q"uote'}
    assert patch.files["nëw name.txt"].old_path == "old name.txt"
    assert patch.touches("old name.txt") and not patch.touches("b/c")
    assert patch.files["gone"].deleted and patch.shows("gone", "old", 1)
    assert patch.shows('q"uote', "new", 1) and not patch.shows('q"uote', "old", 1)
    assert patch.shows("a.txt", "new", 4) and not patch.shows("a.txt", "old", 4)


@given(
    st.binary(max_size=300), st.sampled_from([b"", INSIDE, b"diff --git ", b"@@ -1 +1 @@\n", b'+++ "b/\\'])
)
def test_whatever_comes_is_read_without_an_accident(data: bytes, before: bytes) -> None:
    for path, found in parse_patch(before + data).files.items():
        assert found.path == path
