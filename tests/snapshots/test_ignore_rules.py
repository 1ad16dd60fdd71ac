"""Files that `.gitignore` excludes, compared with git itself."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hutch.snapshots.ignore_rules import MAX_GITIGNORE_BYTES, IgnoreRules
from tests.hypothesis_examples import examples

GIT = ["git", "-c", "core.excludesFile=/dev/null", "-c", "core.ignoreCase=false", "-c", "safe.directory=*"]


def not_ignored(tree: Path, directory: str = "", above: IgnoreRules | None = None) -> set[str]:
    """The files that are not ignored, by a walk of our own."""
    here = tree / directory
    patterns = here / ".gitignore"
    rules = (above or IgnoreRules()).enter(directory, patterns.read_bytes() if patterns.is_file() else None)
    found = set()
    for entry in os.scandir(here):
        path = f"{directory}/{entry.name}" if directory else entry.name
        if rules.match(path, entry.is_dir(follow_symlinks=False)):
            continue
        if entry.is_dir(follow_symlinks=False):
            found |= not_ignored(tree, path, rules)
        else:
            found.add(path)
    return found


def not_ignored_by_git(tree: Path) -> set[str]:
    asked = [*GIT, "ls-files", "--others", "--exclude-standard", "-z"]
    ran = subprocess.run(asked, cwd=tree, capture_output=True, check=True)
    return {os.fsdecode(name) for name in ran.stdout.split(b"\0") if name}


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("repository")
    subprocess.run([*GIT, "init", "-q", place], check=True)
    return place


def refill(tree: Path, files: dict[str, bytes]) -> None:
    for entry in tree.iterdir():
        if entry.name != ".git":
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for name, content in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_bytes(content)


PATHS = [
    *("a", "b", "ab", "a.b", "b ", "é", "]", "-", "a*", "!a", "#a"),
    *("d/a", "d/b", "d/ab", "d/d/a", "d/d/d/b", "d/x/a.b", "x/a", "x/d/b", "x/x/d/ab", "a.d/a", "a.d/d/a"),
]
tokens = st.sampled_from(
    [
        *("**", "/**/", "**/", "/**", "\\", "[ab]", "[!a]", "[^a-c]", "[a-", "[[:alpha:]]", "[[:nope:]]"),
        *("[]-]", "[\\]]", "a", "d", "/", "é", "[a/b]", "[.-a]", "[[:x]", "\\a", "\\ ", *"abdx./?*!#^-] "),
    ]
)
lines = st.lists(tokens, max_size=6).map("".join)
gitignores = st.lists(lines, max_size=5).map(lambda found: "\n".join(found).encode())


def has_stars_that_git_reads_otherwise(text: bytes) -> bool:
    """Two stars behind a plain beginning count as `**` in git, against what it documents."""
    return any(
        line.find(b"**") > 0 and line[line.find(b"**") - 1 : line.find(b"**")] != b"/"
        for line in text.split(b"\n")
    )


@settings(
    max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(st.sampled_from(["", "d/", "d/d/", "x/"]), gitignores, max_size=3))
@example({"": b"/*\n!/d\n/d/*\n!/d/d\n"})
@example({"": b"*\n!*/\n!*.b\n"})
@example({"": b"d/\n!d/a\n"})
@example({"": b"b\\ \nab   \n\\#a\n\\!a\r\n"})
@example({"": b"\xef\xbb\xbfa\n*.b\n", "d/": b"!a.b\n!a\n"})
@example({"": b"//**/\nd//\n", "d/": b"/**//a\n"})
@example({"": b"d/**/b\n**/d/a\nx/**\n"})
def test_the_same_is_left_as_git_leaves(repository: Path, rules: dict[str, bytes]) -> None:
    rules = {name: b"" if has_stars_that_git_reads_otherwise(text) else text for name, text in rules.items()}
    refill(repository, dict.fromkeys(PATHS, b"") | {f"{name}.gitignore": rules[name] for name in rules})
    assert not_ignored(repository) == not_ignored_by_git(repository)


def test_a_link_to_a_directory_is_no_directory(repository: Path) -> None:
    refill(repository, {"real/a": b"", ".gitignore": b"link/\n"})
    (repository / "link").symlink_to("real")
    assert not_ignored(repository) == not_ignored_by_git(repository) == {".gitignore", "link", "real/a"}


def test_git_directories_and_git_links_are_ignored() -> None:
    assert IgnoreRules().match(".git", True)
    assert IgnoreRules().match("vendor/module/.git", False)
    assert not IgnoreRules().match(".github", True)


def test_names_need_not_be_utf_8() -> None:
    rules = IgnoreRules().enter("", b"\xff*\n")
    assert rules.match(os.fsdecode(b"\xffx"), False)
    assert not rules.match(os.fsdecode(b"\xfex"), False)


def test_hostile_patterns_take_no_time() -> None:
    """With a plain translation into a regular expression, these would outlive the universe."""
    stars = b"*a" * 100 + b"b\n"
    deep = b"a/" + b"**/*a*a*a*a*b/" * 30 + b"z\n" + b"**/a/" * 50 + b"z\n"
    rules = IgnoreRules().enter("", stars + deep)
    assert not rules.match("a" * 255, False)
    assert not rules.match("a/" * 2000 + "a" * 90, False)
    assert not rules.match(("a" * 255 + "/") * 15 + "a" * 200, True)


def test_a_gitignore_that_is_too_long_counts_for_nothing() -> None:
    assert IgnoreRules().enter("", b"a\n" * (MAX_GITIGNORE_BYTES // 2)).match("a", False)
    assert not IgnoreRules().enter("", b"a\n" * (MAX_GITIGNORE_BYTES // 2 + 1)).match("a", False)
