"""Pages of what differs: one comparison, however many pages are asked for."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.workspace.difference_pages_and_patch import Difference, find_differences
from hutch.workspace.lifecycle.in_place_workspace import open_in_place
from hutch.workspace.mounted_workspace_opening import open_mounted
from hutch.workspace.workspace import COMPARING, Workspace
from tests.workspace.preparation_fixtures import HOST, make_home

pytestmark = pytest.mark.anyio


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    return place


@pytest.fixture
async def workspace(tmp_path: Path, tree: Path) -> AsyncIterator[Workspace]:
    home = make_home(tmp_path)
    place, directory = await open_in_place(home, tree, quota_bytes=1 << 30, quota_files=10_000)
    async with open_mounted(home, place, directory, HOST) as opened:
        await opened.snapshot("first")
        for name in "abcde":
            (tree / name).write_text(f"{name}\n")
        yield opened


def paths(found: Difference) -> list[str]:
    return [each.path for each in found.files]


def stored_comparisons(workspace: Workspace) -> list[Path]:
    return list((workspace.directory / COMPARING).glob("*"))


async def test_later_pages_are_of_the_same_moment(workspace: Workspace, tree: Path) -> None:
    first = await find_differences(workspace, limit=2)
    (tree / "0").write_text("new\n")  # would move all that follows if the files were looked at again
    (tree / "d").unlink()
    second = await find_differences(workspace, limit=2, cursor=first.cursor or "")
    third = await find_differences(workspace, limit=2, cursor=second.cursor or "")
    assert [paths(page) for page in (first, second, third)] == [["a", "b"], ["c", "d"], ["e"]]
    assert (first.total, second.total, third.total, third.cursor) == (5, 5, 5, None)
    assert (bool(first.patch), second.patch, third.patch) == (True, b"", b"")
    assert paths(await find_differences(workspace, limit=2)) == ["0", "a"]


async def test_only_the_last_listing_is_kept(workspace: Workspace, tree: Path) -> None:
    first = await find_differences(workspace, limit=2)
    assert len(stored_comparisons(workspace)) == 1
    await workspace.snapshot("second")
    between = await find_differences(workspace, new=2, limit=2)
    assert len(stored_comparisons(workspace)) == 1
    (tree / "0").write_text("new\n")
    assert paths(await find_differences(workspace, cursor=first.cursor or "", limit=2)) == ["b", "c"]  # again
    assert paths(await find_differences(workspace, new=2, cursor=between.cursor or "", limit=2)) == ["c", "d"]


async def test_one_page_keeps_nothing(workspace: Workspace) -> None:
    assert paths(await find_differences(workspace)) == list("abcde")
    assert stored_comparisons(workspace) == []


async def test_a_cursor_belongs_to_its_comparison(workspace: Workspace, tree: Path) -> None:
    (tree / "below").mkdir()
    (tree / "below/f").write_text("f\n")
    first = await find_differences(workspace, limit=2)
    assert first.cursor is not None
    assert paths(await find_differences(workspace, path="below", cursor="0" + first.cursor[1:])) == [
        "below/f"
    ]


@pytest.mark.parametrize("cursor", ["x", "-1", "1.", "1.zz", "1.0123456789abc", "../../x", "٣", "9" * 40])
async def test_what_is_no_cursor_is_refused(workspace: Workspace, cursor: str) -> None:
    with pytest.raises(BadRequest, match="is no cursor"):
        await find_differences(workspace, cursor=cursor)
