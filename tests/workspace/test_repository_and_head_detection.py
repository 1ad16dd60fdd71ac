"""The kind of a directory, detected from plain files alone, as git itself would."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.workspace.lifecycle.repository_and_head_detection import Layout, find_repository, quick_head
from tests.forge.repositories import commit, git, make_repository


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_repository(tmp_path / "project", {"a": "1"})
    return tmp_path / "project"


def test_kinds_of_directories(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "project", "bare.git")
    git(project, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    (tmp_path / "plain").mkdir()
    assert find_repository(project) == Layout(project, bare=False)
    assert find_repository(tmp_path / "bare.git") == Layout(tmp_path / "bare.git", bare=True)
    assert find_repository(tmp_path / "plain") is None
    linked = find_repository(tmp_path / "linked")
    assert linked == Layout(tmp_path / "linked", bare=False, external=(project / ".git",))


@pytest.mark.parametrize("output", ["", "gitdir: /", "gitdir: ../project/.git", "gitdir: \0", "x" * 10_000])
def test_a_dot_git_file_that_nobody_points_back_to(project: Path, tmp_path: Path, output: str) -> None:
    (tmp_path / "lure").mkdir()
    (tmp_path / "lure/.git").write_text(output)
    with pytest.raises(BadRequest, match="does not point back"):
        find_repository(tmp_path / "lure")


def test_the_head_loose_packed_and_detached(project: Path) -> None:
    layout = Layout(project, bare=False)
    first = git(project, "rev-parse", "HEAD")
    assert quick_head(layout, None) == (first, "main")
    git(project, "pack-refs", "--all")
    assert quick_head(layout, None) == (first, "main")
    second = commit(project, {"a": "2"})  # a loose ref goes before a packed one
    assert quick_head(layout, None) == (second, "main")
    git(project, "checkout", "--quiet", "--detach", first)
    assert quick_head(layout, None) == (first, None)
    assert quick_head(layout, "main") == (second, "main")
    assert quick_head(layout, second) == (second, None)


def test_what_plain_files_do_not_show_is_left_to_git(project: Path) -> None:
    layout = Layout(project, bare=False)
    git(project, "tag", "v1")
    assert quick_head(layout, "v1") is None
    assert quick_head(layout, "HEAD~1") is None
    assert quick_head(Layout(project, bare=False, external=(project,)), None) is None
    for result in (
        "",
        "ref: refs/heads/none",
        "ref: ../../../etc/passwd",
        "ref: refs/tags/v1",
        "\0",
        "ref: refs/heads/",
    ):
        (project / ".git/HEAD").write_text(f"{result}\n")
        assert quick_head(layout, None) is None


def test_links_out_of_the_repository_are_not_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("1" * 40 + "\n")
    (project / ".git/refs/heads/lure").symlink_to(tmp_path / "secret")
    (project / ".git/HEAD").write_text("ref: refs/heads/lure\n")
    assert quick_head(Layout(project, bare=False), None) is None
    (project / ".git/HEAD").unlink()
    (project / ".git/HEAD").symlink_to(tmp_path / "secret")
    assert quick_head(Layout(project, bare=False), None) is None


@pytest.mark.parametrize("name", ["gitdir", "commondir"])
def test_a_pipe_in_place_of_a_file_holds_nobody(project: Path, tmp_path: Path, name: str) -> None:
    git(project, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    (project / ".git/worktrees/linked" / name).unlink()
    os.mkfifo(project / ".git/worktrees/linked" / name)
    with pytest.raises(BadRequest, match="does not point back"):
        find_repository(tmp_path / "linked")


def test_full_names_of_branches(project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    assert quick_head(Layout(project, bare=False), "refs/heads/main") == (first, "main")
    git(project, "tag", "v1")
    assert quick_head(Layout(project, bare=False), "refs/tags/v1") is None
