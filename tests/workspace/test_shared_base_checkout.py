"""A base: a commit checked out once, whole or not at all."""

import os
import sys
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest
from hutch.forge.bare_mirror import ensure_mirror
from hutch.workspace.lifecycle.shared_base_checkout import (
    BaseRequest,
    base_key,
    find_base,
    lock_path,
    make_base,
    open_index,
    tree_path,
)
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_record_and_directories import Home
from tests.forge.repositories import commit_tree, git, make_repository
from tests.workspace.preparation_fixtures import (
    COPY,
    FILES,
    HOST,
    content,
    fingerprint,
    make_home,
    make_project,
)

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
def mirror(tmp_path: Path) -> Path:
    make_project(tmp_path / "project")
    git(tmp_path / "project", "tag", "v1")
    git(tmp_path, "clone", "--quiet", "--bare", "project", "mirror.git")
    git(tmp_path / "mirror.git", "gc", "--quiet")
    return tmp_path / "mirror.git"


def new_request(mirror: Path, **words: object) -> BaseRequest:
    commit = git(mirror, "rev-parse", "main")
    return BaseRequest(**{"source": "s", "commit": commit, "branch": "main", "origin": None, **words})


async def test_what_is_in_it(home: Home, mirror: Path) -> None:
    request = new_request(mirror, origin='https://example.com/a"b\\c')
    base = await make_base(home, HOST, mirror, "key", request)
    tree = tree_path(home, "key")
    whole = {name: text.encode() if isinstance(text, str) else text for name, text in FILES.items()}
    assert content(tree) == whole
    assert (base.commit, base.branch) == (request.commit, "main")
    assert base.tree == git(mirror, "rev-parse", "main^{tree}")
    assert base.files == len(list(tree.rglob("*"))) and base.bytes > 200_000
    assert git(tree, "status", "--porcelain") == ""
    assert git(tree, "diff-files") == ""
    assert git(tree, "tag") == "v1" and git(tree, "symbolic-ref", "HEAD") == "refs/heads/main"
    assert git(tree, "config", "remote.origin.url") == 'https://example.com/a"b\\c'
    assert git(tree, "rev-parse", "origin/main") == request.commit
    assert git(tree, "fsck", "--strict") == ""
    lock_path(home, "key").touch()
    assert find_base(home, "key") == base
    assert not list((tree / ".git").glob("hooks/*"))


async def test_files_carry_the_commits_time_and_history_is_shared(home: Home, mirror: Path) -> None:
    await make_base(home, HOST, mirror, "key", new_request(mirror))
    tree = tree_path(home, "key")
    assert {(tree / name).stat().st_mtime_ns for name in FILES} == {1_700_000_000 * 10**9}
    packs = sorted((tree / ".git/objects/pack").glob("*.pack"))
    assert packs and all((mirror / "objects/pack" / pack.name).samefile(pack) for pack in packs)


async def test_directories_deeper_than_python_goes(home: Home, tmp_path: Path) -> None:
    deep, levels = tmp_path / "deep", sys.getrecursionlimit() + 100
    make_repository(deep, {"a": "one\n"})
    # One process, where mktree takes one for each level.
    path, author = "d/" * levels + "a", "committer A <a@example.org> 0 +0000"
    stream = f"commit refs/heads/deep\n{author}\ndata 1\nx\nM 100644 inline {path}\ndata 4\none\n"
    git(deep, "fast-import", "--quiet", stdin=stream.encode())
    commit_tree(deep, git(deep, "rev-parse", "deep^{tree}"))
    git(tmp_path, "clone", "--quiet", "--bare", "deep", "mirror.git")
    git(tmp_path / "mirror.git", "gc", "--quiet")
    try:
        base = await make_base(
            home, HOST, tmp_path / "mirror.git", "key", new_request(tmp_path / "mirror.git")
        )
        assert base.files > levels
    finally:
        discard(home.bases)  # pytest cannot
    assert not home.bases.exists()


async def test_a_detached_head(home: Home, mirror: Path) -> None:
    request = new_request(mirror, branch=None)
    await make_base(home, HOST, mirror, "key", request)
    assert (tree_path(home, "key") / ".git/HEAD").read_text() == f"{request.commit}\n"
    assert git(tree_path(home, "key"), "status", "--porcelain") == ""


async def test_what_cannot_be_checked_out_leaves_nothing(home: Home, mirror: Path) -> None:
    with pytest.raises(BadRequest, match="cannot be checked out at 111111111111"):
        await make_base(home, HOST, mirror, "key", new_request(mirror, commit="1" * 40))
    assert list(home.bases.iterdir()) == []


async def test_attributes_of_the_repository_run_nothing(home: Home, tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    files = {".gitattributes": "* filter=lfs\n*.crlf text eol=crlf\n", "a.crlf": "1\n2\n", "b": "x\n"}
    make_project(tmp_path / "project")
    for name, text in files.items():
        (tmp_path / "project" / name).write_text(text)
    git(tmp_path / "project", "add", ".")
    git(tmp_path / "project", "commit", "--quiet", "-m", "x")
    mirror = tmp_path / "mirror.git"
    git(tmp_path, "clone", "--quiet", "--bare", "project", "mirror.git")
    git(mirror, "gc", "--quiet")
    git(mirror, "config", "filter.lfs.smudge", f"touch {proof}; cat")
    git(mirror, "config", "core.hooksPath", str(tmp_path))
    await make_base(home, HOST, mirror, "key", new_request(mirror))
    assert not proof.exists()
    assert (tree_path(home, "key") / "a.crlf").read_bytes() == b"1\n2\n"


async def test_attributes_of_the_repository_convert_nothing(home: Home, tmp_path: Path) -> None:
    """Snapshots hold what is on disk: a file written otherwise than committed would count as changed."""
    rules = (
        "*.crlf text eol=crlf\n*.id ident\n*.utf text working-tree-encoding=UTF-16\n"
        "*.old crlf=input\nboth.txt text=auto eol=crlf\n"
    )
    files = {"a.crlf": b"1\n2\n", "b.id": b"$Id$\n", "c.utf": "héllo\n".encode("utf-16"), "both.txt": b"x\n"}
    make_repository(tmp_path / "project", {".gitattributes": rules, "sub/.gitattributes": rules, **files})
    record = await prepare(home, "a", tmp_path / "project", git=HOST, options=COPY)
    tree, base = home.workspace("a") / "tree", open_index(home, record.base)
    committed = git(tmp_path / "project", "rev-parse", "HEAD^{tree}")
    assert base.top.files is not None and base.top.files.hex() == committed
    assert {name: (tree / name).read_bytes() for name in ("a.crlf", "b.id", "both.txt")} == {
        name: files[name] for name in ("a.crlf", "b.id", "both.txt")
    }
    assert (tree / "c.utf").read_bytes() == "héllo\n".encode()  # as the blob has it
    for path in tree.rglob("*"):
        if path.is_file() and ".git" not in path.parts:
            os.utime(path, (1, 1))  # so that git reads them all
    assert git(tree, "status", "--porcelain") == ""


async def test_trees_of_old_tools_are_checked_out(home: Home, tmp_path: Path) -> None:
    """Modes that git no longer writes and empty directories give a tree another id, not other files."""
    project = tmp_path / "project"
    make_repository(project, {"a": "1"})
    blob, empty = git(project, "rev-parse", "HEAD:a"), git(project, "mktree", stdin=b"")
    entries = ((b"100664", b"a", blob), (b"040000", b"d", empty))
    raw = b"".join(b"%s %s\0%s" % (mode, name, bytes.fromhex(id)) for mode, name, id in entries)
    tree = git(project, "hash-object", "-t", "tree", "-w", "--literally", "--stdin", stdin=raw)
    commit_tree(project, tree)
    record = await prepare(home, "a", project, git=HOST, options=COPY)
    assert content(home.workspace("a") / "tree") == {"a": b"1"} and record.mode == "copy"


async def test_a_copy_leaves_it_as_it_was(home: Home, tmp_path: Path) -> None:
    make_project(tmp_path / "project")
    record = await prepare(home, "a", tmp_path / "project", git=HOST, options=COPY)
    before = fingerprint(tree_path(home, record.base))
    tree = home.workspace("a") / "tree"
    for path in tree.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            with path.open("ab") as file:
                file.write(b"over")
    await prepare(home, "b", tmp_path / "project", git=HOST, options=COPY)
    assert fingerprint(tree_path(home, record.base)) == before


async def test_using_it_is_noted(home: Home, tmp_path: Path) -> None:
    make_project(tmp_path / "project")
    record = await prepare(home, "a", tmp_path / "project", git=HOST)
    lock = lock_path(home, record.base)
    os.utime(lock, (1, 1))
    await prepare(home, "b", tmp_path / "project", git=HOST)
    assert lock.stat().st_mtime > 1


async def test_an_empty_mirror(home: Home, tmp_path: Path) -> None:
    await ensure_mirror(HOST, tmp_path / "empty.git")
    with pytest.raises(BadRequest):
        request = BaseRequest(source="s", commit="1" * 40, branch=None, origin=None)
        await make_base(home, HOST, tmp_path / "empty.git", "key", request)


def test_keys_distinguish_repository_commit_and_branch() -> None:
    keys = {
        base_key(repository, commit, branch)
        for repository in ("a-1", "b-2")
        for commit in ("1" * 40, "2" * 40)
        for branch in (None, "main", "other", "a/b")
    }
    assert len(keys) == 16 and all("/" not in key and "." not in key for key in keys)
