"""A directory that was named stays the one that was checked, whatever becomes of its path."""

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.pinned_directory import PinnedDirectory, pin_path
from hutch.workspace.lifecycle.workspace_builder import prepare
from tests.forge.repositories import commit, git, make_repository
from tests.workspace.preparation_fixtures import HOST, content, make_home

pytestmark = pytest.mark.anyio


def swap(project: Path, place: Path) -> None:
    project.rename(place / "away")
    (place / "other").rename(project)


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_repository(tmp_path / "above/project", {"a": "1"})
    return tmp_path / "above/project"


def test_no_link_is_followed_in_any_part_of_the_path(project: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "above")
    (tmp_path / "whole").symlink_to(project)
    before = descriptors()
    for path in (tmp_path / "link/project", tmp_path / "whole"):
        with pytest.raises(Conflict, match="goes through a link"):
            PinnedDirectory(path)
        with pin_path(path) as pinned:  # for whoever may follow links, once
            assert pinned.path == project
    for path in (tmp_path / "none", project / "a"):
        with pytest.raises(NotFound, match="no directory"):
            PinnedDirectory(path)
    for path in (Path("above"), tmp_path / "above/../above"):
        with pytest.raises(NotFound):
            PinnedDirectory(path)
    assert descriptors() == before


async def test_a_jail_gets_the_directory_that_is_held_or_nothing(project: Path, tmp_path: Path) -> None:
    make_repository(tmp_path / "other", {"secret": "1"})
    with PinnedDirectory(project) as pinned:
        async with open_jail(pinned.main()) as jail:
            assert (await jail.run(["ls"])).stdout == b"a\n"
        swap(project, tmp_path)  # no link anywhere, and yet another directory
        with pytest.raises(Conflict, match="was replaced by another directory"):
            async with open_jail(pinned.main()):
                pass


async def test_what_is_copied_is_what_was_held(tmp_path: Path) -> None:
    for name in ("plain", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a").write_text(name)

    def swapping(path: Path) -> PinnedDirectory:
        pinned = pin_path(path)
        path.rename(tmp_path / "away")
        path.symlink_to(tmp_path / "other")
        return pinned

    home = make_home(tmp_path)
    await prepare(home, "one", tmp_path / "plain", git=HOST, pin_path=swapping)
    assert content(home.workspace("one") / "tree") == {"a": b"plain"}


async def test_what_is_read_of_a_repository_is_what_was_held(project: Path, tmp_path: Path) -> None:
    make_repository(tmp_path / "other", {"secret": "1"})

    def swapping(path: Path) -> PinnedDirectory:
        pinned = pin_path(path)
        swap(path, tmp_path)
        return pinned

    home = make_home(tmp_path)
    with pytest.raises(Conflict, match="was replaced by another directory"):
        await prepare(home, "one", project, git=HOST, pin_path=swapping)
    assert not home.workspace("one").exists()


def test_each_directory_of_a_linked_worktree_is_checked(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    seen: list[Path] = []
    before = descriptors()
    with PinnedDirectory(tmp_path / "linked", lambda path, fd: seen.append(path)) as pinned:
        assert seen == [tmp_path / "linked", project / ".git"]
        assert pinned.main().directory == project
        assert seen[2:] == [project]

    def only_below(path: Path, fd: int) -> None:
        if not path.is_relative_to(tmp_path / "linked"):
            raise Denied("elsewhere")

    with pytest.raises(Denied, match="elsewhere"):
        PinnedDirectory(tmp_path / "linked", only_below)
    assert descriptors() == before


async def test_a_main_repository_that_was_swapped_is_not_read(project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", str(tmp_path / "linked"))
    commit(project, {"a": "2"})
    make_repository(tmp_path / "other", {"secret": "1"})

    def swapping(path: Path) -> PinnedDirectory:
        pinned = pin_path(path)
        (project / ".git").rename(tmp_path / "away")
        (tmp_path / "other/.git").rename(project / ".git")
        return pinned

    with pytest.raises((Conflict, BadRequest)):
        await prepare(make_home(tmp_path), "one", tmp_path / "linked", git=HOST, pin_path=swapping)
