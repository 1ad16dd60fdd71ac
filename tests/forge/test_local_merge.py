"""A change is read, merged and closed in its repository, and no work is lost."""

import shutil
from dataclasses import astuple
from pathlib import Path

import pytest

from hutch.domain.errors import Conflict, MergeConflict, NotFound
from hutch.forge.interface import MergeResult, Strategy
from tests.flows.delivery_fixtures import ADA, FILES, MORE, Delivering, bare, branches, made, push, tip
from tests.forge.repositories import git, make_repository

pytestmark = pytest.mark.anyio


# --- merging ---


@pytest.mark.parametrize("strategy", [None, "merge", "squash", "fast-forward"])
async def test_a_merged_change_is_not_merged_again(
    place: Path, hutch: Delivering, strategy: Strategy | None
) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    push(place, origin, {"other.txt": "theirs\n"})
    once = (await hutch.merge(change, strategy="merge")).commit
    again = await hutch.merge(change, strategy=strategy)
    assert (again.commit, tip(origin, "main")) == (once, once)


async def test_squashed_work_makes_no_empty_commit(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    push(place, origin, {"other.txt": "theirs\n"})
    once = (await hutch.merge(change, strategy="squash")).commit
    for strategy in (None, "merge", "squash"):
        assert (await hutch.merge(change, strategy=strategy)).commit == once == tip(origin, "main")


async def test_a_branch_that_is_gone_with_its_commit_is_reported(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    git(origin, "branch", "-D", change.branch)
    git(origin, "-c", "gc.pruneExpire=now", "gc", "--prune=now", "--quiet")
    with pytest.raises(NotFound, match="is gone from the repository, and so is the branch"):
        await hutch.merge(change)


async def test_an_amended_branch_is_not_merged_as_proposed(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    before = tip(origin, "main")
    change = await made(hutch, origin)
    theirs = git(origin, "commit-tree", f"{change.commit}^{{tree}}", "-p", before, "-m", "Amended")
    git(origin, "update-ref", f"refs/heads/{change.branch}", theirs)
    with pytest.raises(Conflict, match=f"it is at {theirs[:12]}, but .* was proposed .* git merge"):
        await hutch.merge(change)
    assert tip(origin, "main") == before


async def test_a_base_that_stood_still_is_moved_forward(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    assert await hutch.merge(change) == MergeResult(change.commit)
    assert tip(origin, "main") == change.commit
    assert branches(origin) == ["main"]
    assert b"+print('hello, world')" in await hutch.local(change).diff(change)


async def test_a_base_that_moved_gets_a_merge_commit(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    theirs = push(place, origin, {"other.txt": "theirs\n"})
    merged = (await hutch.merge(change)).commit
    assert tip(origin, "main") == merged
    assert git(origin, "rev-parse", f"{merged}^1", f"{merged}^2").split() == [theirs, change.commit]
    assert git(origin, "ls-tree", "-r", "--name-only", merged).split() == [
        *("README.md", "other.txt", "src/main.py"),
    ]
    assert git(origin, "show", "-s", "--format=%an <%ae>|%s", merged) == (
        f"{ADA}|Merge hutch/say-more: Say more"
    )


async def test_a_fast_forward_on_request(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    theirs = push(place, origin, {"other.txt": "theirs\n"})
    with pytest.raises(Conflict, match="main has new commits since hutch/say-more started"):
        await hutch.merge(change, strategy="fast-forward")
    assert tip(origin, "main") == theirs


async def test_a_merge_commit_on_request(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    before = tip(origin, "main")
    change = await made(hutch, origin)
    merged = (await hutch.merge(change, strategy="merge")).commit
    assert git(origin, "rev-list", "--parents", "-1", "main").split() == [merged, before, change.commit]


@pytest.mark.parametrize("moved", [False, True])
async def test_squashed_it_is_one_commit(place: Path, hutch: Delivering, moved: bool) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    before = push(place, origin, {"other.txt": "theirs\n"}) if moved else tip(origin, "main")
    merged, stays = astuple(await hutch.merge(change, strategy="squash"))
    assert (stays, tip(origin, change.branch)) == (
        "hutch/say-more was not deleted. Delete it: git branch -D hutch/say-more",
        change.commit,
    )
    assert git(origin, "rev-list", "--parents", "-1", "main").split() == [merged, before]
    assert git(origin, "show", f"{merged}:src/main.py") == "print('hello, world')"
    message = git(origin, "show", "-s", "--format=%B", merged)
    assert message == "Say more\n\nIt greets.\n\nHutch-Session: ses_1\nHutch-Run: run_1"


@pytest.mark.parametrize("strategy", [None, "merge", "squash"])
async def test_a_conflict_names_the_paths_and_changes_nothing(
    place: Path, hutch: Delivering, strategy: Strategy | None
) -> None:
    origin = bare(place)
    change = await hutch.change(origin, {**MORE, "README.md": "# Ours\n", "new": "1\n"})
    assert change is not None
    theirs = push(place, origin, {"src/main.py": "print('theirs')\n", "README.md": "# Theirs\n"})
    both = r"have both changed README\.md, src/main\.py\. Merge by hand"
    with pytest.raises(MergeConflict, match=both) as caught:
        await hutch.merge(change, strategy=strategy)
    assert caught.value.paths == ("README.md", "src/main.py")
    assert tip(origin, "main") == theirs


async def test_a_base_that_is_gone(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    git(origin, "update-ref", "-d", "refs/heads/main")
    with pytest.raises(NotFound, match="no branch 'main'"):
        await hutch.merge(change)


async def test_a_change_of_a_detached_head_says_how_to_merge_it(place: Path, hutch: Delivering) -> None:
    used = place / "used"
    make_repository(used, FILES)
    git(used, "checkout", "--quiet", "--detach")
    change = await made(hutch, used)
    with pytest.raises(NotFound, match=f"no branch to merge it into.* then: git merge {change.branch}$"):
        await hutch.merge(change)


async def test_a_repository_that_is_gone(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    shutil.rmtree(origin)
    with pytest.raises(NotFound, match="no longer exists"):
        await hutch.merge(change)


async def test_files_of_the_base_that_is_checked_out_follow(place: Path, hutch: Delivering) -> None:
    used = place / "used"
    make_repository(used, FILES)
    change = await made(hutch, used)
    (used / "README.md").write_text("not committed\n")
    owner = (used / "src/main.py").stat().st_uid
    assert (await hutch.merge(change)).commit == change.commit == git(used, "rev-parse", "HEAD")
    assert (used / "src/main.py").read_text() == MORE["src/main.py"]
    assert (used / "src/main.py").stat().st_uid == owner
    assert git(used, "status", "--porcelain") == "M README.md"  # theirs, and still there


async def test_files_follow_where_the_repository_is_and_not_where_its_settings_point(
    place: Path, hutch: Delivering
) -> None:
    used = place / "used"
    make_repository(used, FILES)
    change = await made(hutch, used)
    git(used, "config", "core.worktree", "/tmp")
    assert (await hutch.merge(change)).commit == change.commit
    assert (used / "src/main.py").read_text() == MORE["src/main.py"]


@pytest.mark.parametrize("strategy", [None, "merge", "squash"])
async def test_uncommitted_files_are_not_overwritten(
    place: Path, hutch: Delivering, strategy: Strategy | None
) -> None:
    used = place / "used"
    before = make_repository(used, FILES)
    change = await made(hutch, used)
    (used / "src/main.py").write_text("mine\n")
    with pytest.raises(Conflict, match=r"(?s)main was not changed.*src/main.py"):
        await hutch.merge(change, strategy=strategy)
    assert (used / "src/main.py").read_text() == "mine\n"
    assert git(used, "rev-parse", "HEAD") == before


async def test_another_branch_checked_out_stays_as_it_is(place: Path, hutch: Delivering) -> None:
    used = place / "used"
    make_repository(used, FILES)
    change = await made(hutch, used)
    git(used, "checkout", "--quiet", "-b", "elsewhere")
    assert (await hutch.merge(change)).commit == tip(used, "main")
    assert git(used, "status", "--porcelain", "--branch") == "## elsewhere"
    assert (used / "src/main.py").read_text() == FILES["src/main.py"]


async def test_a_checked_out_branch_is_not_deleted_by_a_merge(place: Path, hutch: Delivering) -> None:
    used = place / "used"
    make_repository(used, FILES)
    change = await made(hutch, used)
    git(used, "worktree", "add", "--quiet", str(place / "linked"), change.branch)
    merged = await hutch.merge(change)
    assert merged.commit == tip(used, "main") == tip(used, change.branch)
    assert "is checked out" in merged.branch_stays


# --- the rest of its life ---


async def test_the_patch_is_what_git_says(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    patch = (await hutch.local(change).diff(change)).decode()
    assert patch.strip() == git(origin, "diff", change.base_commit, change.commit)


async def test_a_closed_change_leaves_no_branch(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    for _ in range(2):  # one that is gone already is fine
        await hutch.local(change).close(change)
        assert branches(origin) == ["main"]


async def test_a_branch_with_new_commits_is_not_deleted(place: Path, hutch: Delivering) -> None:
    origin = bare(place)
    change = await made(hutch, origin)
    git(place / "made", "fetch", "--quiet", str(origin), change.branch)
    git(place / "made", "checkout", "--quiet", "FETCH_HEAD")
    theirs = push(place, origin, {"more.txt": "theirs\n"}, change.branch)
    with pytest.raises(Conflict, match="has moved"):
        await hutch.local(change).close(change)
    assert tip(origin, change.branch) == theirs


async def test_a_branch_that_is_checked_out_is_not_deleted(place: Path, hutch: Delivering) -> None:
    used = place / "used"
    make_repository(used, FILES)
    change = await made(hutch, used)
    git(used, "checkout", "--quiet", change.branch)
    with pytest.raises(Conflict, match="is checked out"):
        await hutch.local(change).close(change)
    assert tip(used, change.branch) == change.commit
