"""Branches, local and remote, are moved only from their expected commit."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch.app.forges import forges_of
from hutch.domain.errors import Conflict, Unavailable
from hutch.forge.branch_push import Branches, LocalBranches, RemoteBranches
from hutch.forge.interface import Commits
from hutch.forge.repo_url import parse_repo_url
from hutch.workspace.workspace import Workspace
from tests.flows.delivery_fixtures import Delivering, bare, tip
from tests.forge.repositories import git, serving

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def branches_of(hutch: Delivering, source: str, workspace: Workspace) -> AsyncIterator[Branches]:
    remote, commits = parse_repo_url(source), Commits(workspace.git, workspace.snapshots.storage.git_dir)
    if remote.path is None:
        yield RemoteBranches(commits, remote)
        return
    async with forges_of(hutch.loaded).open_git(remote.path, True) as git_there:
        yield LocalBranches(commits, git_there)


async def commit(workspace: Workspace, text: str, parent: str) -> str:
    await workspace.write("new", text.encode())
    taken = await workspace.snapshot(text)
    said = (
        f"tree {taken.tree}\nparent {parent}\nauthor A <a@b> 1 +0000\ncommitter A <a@b> 1 +0000\n\n{text}\n"
    )
    printed = await workspace.git.run(
        *("hash-object", "-t", "commit", "-w", "--stdin"),
        git_dir=workspace.snapshots.storage.git_dir,
        stdin=said.encode(),
    )
    return printed.decode().strip()


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_branch_is_made_moved_and_not_run_over(
    place: Path, hutch: Delivering, elsewhere: bool
) -> None:
    (place / "served").mkdir()
    origin = bare(place, name="served/origin.git")
    git(origin, "config", "http.receivepack", "true")
    with serving(place / "served") as server:
        source = server.url("origin.git") if elsewhere else str(origin)
        async with (
            hutch.workspace(source) as workspace,
            branches_of(hutch, source, workspace) as branches,
        ):
            base = tip(origin, "main")
            assert await branches.heads() == {"main": base}
            one = await commit(workspace, "one", base)
            two = await commit(workspace, "two", one)
            other = await commit(workspace, "other", base)
            assert await branches.update(one, base, "hutch/x", None)
            assert await branches.update(two, one, "hutch/x", one)
            for new, old in ((other, None), (other, one)):
                assert not await branches.update(new, base, "hutch/x", old)
            assert await branches.heads() == {"main": base, "hutch/x": two}


async def test_a_branch_that_is_checked_out_is_left_alone(place: Path, hutch: Delivering) -> None:
    bare(place)
    used = place / "made"
    async with (
        hutch.workspace(str(used)) as workspace,
        branches_of(hutch, str(used), workspace) as branches,
    ):
        base = tip(used, "main")
        one = await commit(workspace, "one", base)
        two = await commit(workspace, "two", one)
        assert await branches.update(one, base, "hutch/x", None)
        git(used, "checkout", "-q", "hutch/x")
        with pytest.raises(Conflict, match="checked out"):
            await branches.update(two, one, "hutch/x", one)
        assert tip(used, "hutch/x") == one


@pytest.mark.parametrize("said", ["already exists", "cannot create", "but expected"])
async def test_a_hook_that_refuses_is_named_whatever_it_says(
    place: Path, hutch: Delivering, said: str
) -> None:
    bare(place)
    used = place / "made"
    hook = used / ".git/hooks/reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f'#!/bin/sh\necho "not here: {said}" >&2\nexit 1\n')
    hook.chmod(0o755)
    async with (
        hutch.workspace(str(used)) as workspace,
        branches_of(hutch, str(used), workspace) as branches,
    ):
        base = tip(used, "main")
        one = await commit(workspace, "one", base)
        with pytest.raises(Unavailable, match=f"update-ref failed .*not here: {said}"):
            await branches.update(one, base, "hutch/x", None)


@pytest.mark.parametrize("there", ["hutch", "hutch/x/y"])
async def test_a_branch_in_the_way_is_seen_as_that(place: Path, hutch: Delivering, there: str) -> None:
    bare(place)
    used = place / "made"
    git(used, "branch", there)
    async with (
        hutch.workspace(str(used)) as workspace,
        branches_of(hutch, str(used), workspace) as branches,
    ):
        base = tip(used, "main")
        one = await commit(workspace, "one", base)
        assert not await branches.update(one, base, "hutch/x", None)
