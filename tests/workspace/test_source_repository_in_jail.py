"""A repository of this machine, read by git inside a jail, whose answers are validated."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import os
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, NotFound
from hutch.forge.bare_mirror import has_commit
from hutch.workspace.lifecycle.repository_and_head_detection import Head, Layout, quick_head
from hutch.workspace.lifecycle.repository_reader_in_jail import open_jailed_repository
from tests.forge.repositories import commit, commit_tree, git, make_repository
from tests.workspace.preparation_fixtures import HOST

pytestmark = pytest.mark.anyio


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_repository(tmp_path / "project", {"a": "1", ".gitignore": "ignored\n"})
    (tmp_path / "scratch").mkdir()
    return tmp_path / "project"


def opened(project: Path) -> object:
    return open_jailed_repository(Layout(project, bare=False), project.parent / "scratch")


async def test_what_it_is_asked(project: Path) -> None:
    head = git(project, "rev-parse", "HEAD")
    git(project, "remote", "add", "origin", "https://user:secret@example.com/p.git")
    git(project, "branch", "other")
    async with opened(project) as local:
        assert await local.head(None) == Head(head, "main", "https://example.com/p.git")
        assert await local.head("other") == Head(head, "other", "https://example.com/p.git")
        assert await local.head(head) == Head(head, None, "https://example.com/p.git")
        with pytest.raises(NotFound, match=r"no branch, tag or commit 'othr'. Did you mean other\?"):
            await local.head("othr")
        assert await local.changes() == []
        (project / "a").write_text("2")
        (project / "new file\n").write_text("")
        (project / "ignored").write_text("")
        assert await local.changes() == ["a", "new file\n"]


async def test_objects_come_once_and_then_only_what_is_new(project: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.git"
    first = git(project, "rev-parse", "HEAD")
    git(project, "tag", "-a", "v1", "-m", "x")
    async with opened(project) as local:
        await local.pack(HOST, mirror, first, on_progress=None)
    assert await has_commit(HOST, mirror, first) and git(mirror, "tag") == "v1"
    second = commit(project, {"big": os.urandom(100_000).hex()})
    git(project, "tag", "-d", "v1")
    git(project, "tag", "v1/x")
    async with opened(project) as local:
        await local.pack(HOST, mirror, second, on_progress=None)
    assert git(mirror, "rev-list", "--count", second) == "2" and git(mirror, "tag") == "v1/x"
    sizes = sorted(pack.stat().st_size for pack in (mirror / "objects/pack").glob("*.pack"))
    assert len(sizes) == 2 and sizes[0] < 2000 < 100_000 < sizes[1]
    git(mirror, "fsck", "--strict")


async def test_history_that_was_rewritten(project: Path, tmp_path: Path) -> None:
    mirror = tmp_path / "mirror.git"
    async with opened(project) as local:
        await local.pack(HOST, mirror, git(project, "rev-parse", "HEAD"), on_progress=None)
    git(project, "checkout", "--quiet", "--orphan", "anew")
    anew = commit(project, {"b": "2"})
    git(project, "branch", "-D", "main")
    git(project, "reflog", "expire", "--expire=now", "--all")
    git(project, "gc", "--quiet", "--prune=now")
    async with opened(project) as local:
        await local.pack(HOST, mirror, anew, on_progress=None)
    assert git(mirror, "rev-list", "--count", anew) == "1"


async def test_a_broken_repository_is_refused_with_a_reason(project: Path, tmp_path: Path) -> None:
    (project / ".git/config").write_text("[core\n")
    async with opened(project) as local:
        with pytest.raises(BadRequest, match="is not a repository that git can read: bad config"):
            await local.head(None)
    make_repository(tmp_path / "holes", {"a": "1", "b": "2"})
    blob = git(tmp_path / "holes", "rev-parse", "HEAD:a")
    (tmp_path / "holes/.git/objects" / blob[:2] / blob[2:]).unlink()
    async with open_jailed_repository(Layout(tmp_path / "holes", bare=False), tmp_path / "scratch") as local:
        head = await local.head(None)
        with pytest.raises(BadRequest, match="git fsck"):
            await local.pack(HOST, tmp_path / "mirror.git", head.commit, on_progress=None)


async def test_nothing_checked_out_and_nothing_there(project: Path, tmp_path: Path) -> None:
    (project / ".git/HEAD").write_text("ref: refs/heads/none\n")
    async with opened(project) as local:
        with pytest.raises(NotFound, match=r"has nothing checked out. Name a branch: main"):
            await local.head(None)
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    async with open_jailed_repository(Layout(tmp_path / "empty", bare=False), tmp_path / "scratch") as local:
        with pytest.raises(Conflict, match="is empty"):
            await local.head(None)


async def test_sha_256_is_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "scratch").mkdir()
    git(tmp_path / "new", "init", "--quiet", "--object-format=sha256")
    commit(tmp_path / "new", {"a": "1"})
    async with open_jailed_repository(Layout(tmp_path / "new", bare=False), tmp_path / "scratch") as local:
        with pytest.raises(BadRequest, match="SHA-256"):
            await local.head(None)


async def test_a_repository_that_answers_with_lies(project: Path, tmp_path: Path) -> None:
    """Its own settings decide what git prints there; none of it gets through unchecked."""
    for name, value in {
        "remote.origin.url": "ext::sh -c 'touch /tmp/pwned'",
        "alias.status": "!printf '? ../../../etc/passwd\\\\0'",
        "status.renames": "copies",
        "core.quotePath": "false",
        "core.fsmonitor": "/bin/echo",
        "core.worktree": "/etc",
    }.items():
        git(project, "config", name, value)
    head = git(project.parent, f"--git-dir={project}/.git", "rev-parse", "HEAD")
    async with opened(project) as local:
        assert await local.head(None) == Head(head, "main", None)
        assert not [path for path in await local.changes() if path.startswith(("/", ".."))]


@pytest.mark.parametrize("where", ["config", "config.worktree"])
async def test_settings_that_point_elsewhere_are_not_followed(project: Path, where: str) -> None:
    if where == "config.worktree":
        git(project, "config", "extensions.worktreeConfig", "true")
        git(project, "config", "--worktree", "core.worktree", "/etc")
    else:
        git(project, "config", "core.worktree", "/etc")
    async with opened(project) as local:
        assert await local.changes() == []
        (project / "new").write_text("1")
        assert await local.changes() == ["new"]


async def test_the_repository_is_only_read(project: Path) -> None:
    git(project, "config", "core.fsmonitor", "touch /workspace/.git/written; touch /workspace/written; false")
    before = sorted(str(path) for path in project.rglob("*"))
    (project / "a").write_text("3")
    async with opened(project) as local:
        assert await local.changes() == ["a"]
    assert sorted(str(path) for path in project.rglob("*")) == before


async def test_a_branch_goes_before_a_tag_of_its_name(project: Path) -> None:
    """As for a repository elsewhere, and for what plain files show."""
    first = git(project, "rev-parse", "HEAD")
    git(project, "tag", "x")
    git(project, "checkout", "--quiet", "-b", "x")
    second = commit(project, {"a": "2"})
    async with opened(project) as local:
        assert await local.head("x") == Head(second, "x", None)
        assert await local.head("refs/tags/x") == Head(first, None, None)
        assert quick_head(Layout(project, bare=False), "x") == (second, "x")


async def test_objects_that_lie_elsewhere(project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--shared", "project", "shared")
    async with opened(tmp_path / "shared") as local:
        with pytest.raises(BadRequest, match=r"borrows objects from another repository.*--shared"):
            await local.head(None)
        with pytest.raises(BadRequest, match="borrows objects from another repository"):
            await local.head("main")
    head = commit(tmp_path / "shared", {"b": "2"})  # its own commit, on top of what it borrows
    async with opened(tmp_path / "shared") as local:
        with pytest.raises(BadRequest, match="borrows objects from another repository"):
            await local.pack(HOST, tmp_path / "mirror.git", head, on_progress=None)


async def test_a_refusal_names_the_fault(project: Path, tmp_path: Path) -> None:
    blob = git(project, "rev-parse", "HEAD:a")
    raw = b"100644 .GIT\0" + bytes.fromhex(blob)
    tree = git(project, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    made = commit_tree(project, tree)
    async with opened(project) as local:
        with pytest.raises(BadRequest, match=f"git refuses: object {tree}: hasDotgit: contains '.git'"):
            await local.pack(HOST, tmp_path / "mirror.git", made, on_progress=None)
