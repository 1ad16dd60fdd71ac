"""A mirror of a real repository, over a real connection."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, Denied, NotFound
from hutch.forge.bare_mirror import FoundRevision, check_revision, fetch, find_revision, has_commit
from hutch.forge.host_git import Git
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from tests.forge.repositories import Server, commit, commit_tree, git, make_repository, serving

pytestmark = pytest.mark.anyio

HOST = Git({"PATH": os.defpath})


@pytest.fixture
def origin(tmp_path: Path) -> Path:
    directory = tmp_path / "served" / "project"
    make_repository(directory, {"a.txt": "one\n"})
    return directory


@pytest.fixture
def server(origin: Path) -> Iterator[Server]:
    with serving(origin.parent) as opened:
        yield opened


@pytest.fixture
def repo(server: Server) -> RepoUrl:
    return parse_repo_url(server.url("project/.git"))


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    return tmp_path / "mirror.git"


async def test_the_default_branch(origin: Path, repo: RepoUrl) -> None:
    git(origin, "branch", "other")
    found = await find_revision(HOST, repo, None)
    assert found == FoundRevision(git(origin, "rev-parse", "main"), "refs/heads/main")
    assert found.branch == "main"


async def test_a_branch_a_tag_and_a_commit(origin: Path, repo: RepoUrl) -> None:
    first = git(origin, "rev-parse", "main")
    git(origin, "tag", "-a", "v1", "-m", "annotated")
    git(origin, "tag", "light")
    git(origin, "checkout", "--quiet", "-b", "feature/x")
    second = commit(origin, {"b.txt": "two\n"})
    assert await find_revision(HOST, repo, "feature/x") == FoundRevision(second, "refs/heads/feature/x")
    assert await find_revision(HOST, repo, "v1") == FoundRevision(first, "refs/tags/v1")
    assert (await find_revision(HOST, repo, "v1")).branch is None
    assert await find_revision(HOST, repo, "light") == FoundRevision(first, "refs/tags/light")
    assert await find_revision(HOST, repo, first) == FoundRevision(first)


async def test_the_error_for_an_unknown_branch_names_similar_ones(origin: Path, repo: RepoUrl) -> None:
    git(origin, "branch", "release-2024")
    with pytest.raises(
        NotFound, match=r"has no branch, tag or commit 'relase-2024'. Did you mean release-2024\?"
    ):
        await find_revision(HOST, repo, "relase-2024")
    with pytest.raises(NotFound, match=r"'zzz'. It has main, release-2024\."):
        await find_revision(HOST, repo, "zzz")


async def test_an_empty_repository_is_reported(origin: Path, server: Server) -> None:
    git(origin.parent, "init", "--quiet", "--bare", "empty.git")
    empty = parse_repo_url(server.url("empty.git"))
    with pytest.raises(Conflict, match="is empty: it has no commit yet"):
        await find_revision(HOST, empty, None)
    with pytest.raises(Conflict, match="is empty: it has no commit yet"):
        await find_revision(HOST, empty, "main")


async def test_a_missing_repository_is_reported(server: Server) -> None:
    with pytest.raises(NotFound, match="does not exist, or is private"):
        await find_revision(HOST, parse_repo_url(server.url("gone.git")), None)


async def test_a_branch_comes_with_its_history_and_tags_and_nothing_else(
    origin: Path, repo: RepoUrl, mirror: Path
) -> None:
    git(origin, "tag", "v1")
    second = commit(origin, {"a.txt": "two\n"})
    git(origin, "checkout", "--quiet", "-b", "aside")
    aside = commit(origin, {"big": "x" * 1000})
    found = await find_revision(HOST, repo, "main")
    assert await fetch(HOST, repo, mirror, found) == second
    assert git(mirror, "rev-list", "--count", second) == "2"
    assert git(mirror, "tag") == "v1"
    assert not await has_commit(HOST, mirror, aside)
    assert "url" not in (mirror / "config").read_text()


async def test_the_second_time_nothing_is_requested(repo: RepoUrl, mirror: Path, server: Server) -> None:
    found = await find_revision(HOST, repo, None)
    await fetch(HOST, repo, mirror, found)
    asked = len(server.requests)
    assert await fetch(HOST, repo, mirror, found) == found.commit
    assert len(server.requests) == asked


async def test_a_commit_by_its_id_and_by_a_short_one(origin: Path, repo: RepoUrl, mirror: Path) -> None:
    first = git(origin, "rev-parse", "main")
    git(origin, "checkout", "--quiet", "-b", "aside")
    second = commit(origin, {"b": "2"})
    assert await fetch(HOST, repo, mirror, await find_revision(HOST, repo, second[:9])) == second
    assert await fetch(HOST, repo, mirror, await find_revision(HOST, repo, first)) == first


async def test_a_commit_that_no_branch_points_at(origin: Path, repo: RepoUrl, mirror: Path) -> None:
    first = git(origin, "rev-parse", "main")
    commit(origin, {"b": "2"})
    assert await fetch(HOST, repo, mirror, FoundRevision(first)) == first


async def test_a_commit_that_is_not_there(repo: RepoUrl, mirror: Path) -> None:
    with pytest.raises(NotFound, match=f"has no commit {'1' * 40}"):
        await fetch(HOST, repo, mirror, FoundRevision("1" * 40))
    with pytest.raises(NotFound, match="has no commit 1111111"):
        await fetch(HOST, repo, mirror, FoundRevision("1111111"))


async def test_a_branch_that_moved_between_question_and_answer(
    origin: Path, repo: RepoUrl, mirror: Path
) -> None:
    found = await find_revision(HOST, repo, None)
    git(origin, "checkout", "--quiet", "--orphan", "anew")
    commit(origin, {"c": "3"})
    git(origin, "branch", "-f", "main", "anew")
    git(origin, "reflog", "expire", "--expire=now", "--all")
    git(origin, "gc", "--quiet", "--prune=now")
    assert await fetch(HOST, repo, mirror, found) == git(origin, "rev-parse", "main")


async def test_a_tag_that_became_a_directory_of_tags(origin: Path, repo: RepoUrl, mirror: Path) -> None:
    git(origin, "tag", "v")
    await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None))
    git(origin, "tag", "-d", "v")
    git(origin, "tag", "v/1")
    commit(origin, {"d": "4"})
    git(origin, "tag", "v/2")
    await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None))
    assert git(mirror, "tag").split() in (["v/1", "v/2"], ["v/2"])


async def test_submodules_are_not_followed_whatever_they_point_to(
    origin: Path, repo: RepoUrl, mirror: Path, tmp_path: Path
) -> None:
    proof = tmp_path / "proof"
    id = git(origin, "rev-parse", "HEAD")
    evil = f'[submodule "x"]\n\tpath = x\n\turl = ext::sh -c touch% {proof}\n\tupdate = !touch {proof}\n'
    (origin / ".gitmodules").write_text(evil + '[submodule "../../y"]\n\tpath = y\n\turl = -u./payload\n')
    git(origin, "add", ".gitmodules")
    git(origin, "update-index", "--add", "--cacheinfo", f"160000,{id},x")
    git(origin, "commit", "--quiet", "-m", "evil")
    made = git(origin, "rev-parse", "HEAD")
    assert await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None)) == made
    assert not proof.exists()


@pytest.mark.parametrize("name", [".git", ".GIT", "..", "git~1"])
async def test_a_tree_that_would_write_into_dot_git_is_refused(
    origin: Path, repo: RepoUrl, mirror: Path, name: str
) -> None:
    blob = git(origin, "hash-object", "-w", "--stdin", stdin=b"[core]\n\tfsmonitor = touch /tmp/x\n")
    below = git(origin, "mktree", stdin=f"100644 blob {blob}\tconfig\n".encode())
    tree = git(origin, "mktree", stdin=f"040000 tree {below}\t{name}\n".encode())
    commit_tree(origin, tree)
    with pytest.raises(BadRequest, match="contains objects that git refuses"):
        await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None))


async def test_old_and_harmless_faults_are_forgiven(origin: Path, repo: RepoUrl, mirror: Path) -> None:
    tree = git(origin, "rev-parse", "HEAD^{tree}")
    raw = f"tree {tree}\nauthor A <a b@example.com 1 +000\ncommitter A <a@example.com> 1 +0000\n\nold\n"
    raw = raw.replace("<a b@example.com 1 +000", "<a@example.com> 01 +0000")
    made = git(origin, "hash-object", "-w", "-t", "commit", "--literally", "--stdin", stdin=raw.encode())
    git(origin, "update-ref", "refs/heads/main", made)
    assert await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None)) == made


async def test_leftovers_of_a_killed_git_do_no_harm(origin: Path, repo: RepoUrl, mirror: Path) -> None:
    mirror.mkdir()
    (mirror / "HEAD").write_text("ref: refs/hea")  # half of an `init`
    first = await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None))
    own = git(mirror, "for-each-ref", "--format=%(refname)", "refs/hutch")
    for name in (f"{own}.lock", "packed-refs.lock", "HEAD.lock", "objects/pack/tmp_pack_abc"):
        (mirror / name).write_text("")
    second = commit(origin, {"b": "2"})
    assert await fetch(HOST, repo, mirror, await find_revision(HOST, repo, None)) == second != first
    assert not list(mirror.rglob("*.lock")) and not list(mirror.rglob("tmp_*"))


@pytest.mark.parametrize(
    "revision",
    ["", "-x", "--upload-pack=x", "a b", "a..b", "a~1", "HEAD@{1}", "a:b", "x\n", "x.lock", "x" * 300],
)
def test_invalid_revisions(revision: str) -> None:
    with pytest.raises(BadRequest, match="cannot be a branch, tag or commit"):
        check_revision(revision)


async def test_a_fetched_commit_is_refused_to_callers_without_access_to_the_repository(
    tmp_path: Path,
) -> None:
    commit_id = make_repository(tmp_path / "served/secret", {"a": "1"})
    with serving(tmp_path / "served", "ada:secret-word") as server:
        known = parse_repo_url(server.url("secret/.git", user="ada:secret-word"))
        found = await find_revision(HOST, known, commit_id)
        await fetch(HOST, known, tmp_path / "mirror", found)
        with pytest.raises(Denied):
            await find_revision(HOST, parse_repo_url(server.url("secret/.git")), commit_id)
