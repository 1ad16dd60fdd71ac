"""A commit is weighed before it is checked out, and a bomb is as quick to weigh as it is small."""

from pathlib import Path

import pytest

from hutch.domain.errors import LimitReached
from hutch.workspace.lifecycle.commit_size import CommitSize, check_size, read_trees
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from tests.forge.repositories import commit_tree, git, make_repository
from tests.workspace.preparation_fixtures import FILES, HOST, make_home, make_project

pytestmark = pytest.mark.anyio


def nested(project: Path, levels: int) -> str:
    """Ten files, in ten directories, in ten directories and so on. Returns the commit."""
    make_repository(project, {"x": "x"})
    entries = [f"100644 blob {git(project, 'rev-parse', 'HEAD:x')}\tf{number}" for number in range(10)]
    for _ in range(levels):
        tree = git(project, "mktree", stdin="".join(f"{entry}\n" for entry in entries).encode())
        entries = [f"040000 tree {tree}\td{number}" for number in range(10)]
    return commit_tree(project, tree)


async def test_what_is_counted(tmp_path: Path) -> None:
    commit = make_project(tmp_path / "project")
    trees = await read_trees(HOST, tmp_path / "project/.git", commit)
    directories = {str(above) for name in FILES for above in Path(name).parents} - {"."}
    assert trees.total_size() == CommitSize(len(FILES) + len(directories), sum(map(len, FILES.values())))
    assert trees.top == trees.as_written()
    assert trees.top.hex() == git(tmp_path / "project", "rev-parse", "HEAD^{tree}")


async def test_what_occurs_often_counts_often(tmp_path: Path) -> None:
    commit = nested(tmp_path / "project", 3)
    trees = await read_trees(HOST, tmp_path / "project/.git", commit)
    assert trees.total_size() == CommitSize(10 + 100 + 1000, 1000)


async def test_numbers_beyond_all_bounds(tmp_path: Path) -> None:
    commit = nested(tmp_path / "project", 60)
    weight = (await read_trees(HOST, tmp_path / "project/.git", commit)).total_size()
    with pytest.raises(LimitReached, match="more than 1152921504606846976 files"):
        check_size("s", commit, weight, CommitSize(10, 10))


@pytest.mark.parametrize("mode", ["copy", "overlay"])
async def test_a_bomb_is_refused_before_anything_is_written(tmp_path: Path, mode: str) -> None:
    home = make_home(tmp_path)
    nested(tmp_path / "project", 10)
    with pytest.raises(LimitReached, match=r"has 11111111110 files.*Raise workspace.quota_files") as refused:
        await prepare(home, "w", tmp_path / "project", git=HOST, options=Options(mode=mode))
    assert refused.value.limit == "workspace.quota_files"
    assert [path.name for path in home.bases.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.parametrize("mode", ["copy", "overlay"])
async def test_large_files_that_pack_well_are_refused(tmp_path: Path, mode: str) -> None:
    home = make_home(tmp_path)
    make_repository(tmp_path / "project", {"zeros": bytes(3 << 20), "again": bytes(3 << 20)})
    options = Options(mode=mode, quota_bytes=5 << 20)
    with pytest.raises(LimitReached, match=r"of files.*Raise workspace.quota_bytes"):
        await prepare(home, "w", tmp_path / "project", git=HOST, options=options)
    assert [path.name for path in home.bases.iterdir() if path.suffix != ".lock"] == []
