"""A workspace from a repository here or elsewhere, a directory, or a few files."""

# ruff: noqa: ASYNC221 (files and git of a test block nobody)

import asyncio
import os
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, Conflict, LimitReached, NotFound
from hutch.domain.user_given_starter_files import StarterFile
from hutch.forge.git_progress import Progress
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.jail_startup import open_jail
from hutch.workspace.lifecycle.workspace_and_cache_removal import remove_leftovers
from hutch.workspace.lifecycle.workspace_builder import prepare
from hutch.workspace.lifecycle.workspace_filling import Options
from hutch.workspace.lifecycle.workspace_mount import open_workspace
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record
from tests.forge.repositories import commit, commit_tree, git, make_repository, serving
from tests.forked_command import PLAIN, Forked, run
from tests.workspace.preparation_fixtures import COPY, FILES, HOST, OVERLAY, content, make_home, make_project

pytestmark = pytest.mark.anyio

EMPTY = StarterFile(b"")

WHOLE = {name: text.encode() if isinstance(text, str) else text for name, text in FILES.items()}


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return make_home(tmp_path)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    make_project(tmp_path / "project")
    return tmp_path / "project"


def tree(home: Home, id: str) -> Path:
    return home.workspace(id) / "tree"


async def in_jail(home: Home, id: str, script: str) -> str:
    opened = await open_workspace(home, id)
    try:
        async with open_jail(opened.place) as jail:
            ran = await jail.run(["sh", "-c", script])
    finally:
        opened.close()
    assert ran.exit_code == 0, ran.stderr.decode()
    return ran.stdout.decode()


async def seen(home: Home, id: str) -> dict[str, bytes]:
    """The files as the host sees them, whatever the mode."""
    opened = await open_workspace(home, id)
    try:
        found = content(Path(f"/proc/self/fd/{opened.directory.fd}"))
    finally:
        opened.close()
    return found


def leftovers(home: Home) -> list[str]:
    places = (home.workspaces, home.bases, home.repositories)
    return [path.name for place in places for path in place.iterdir() if path.name.startswith(".")]


@pytest.mark.parametrize("options", [COPY, OVERLAY], ids=["copy", "overlay"])
async def test_from_a_repository_here(home: Home, project: Path, options: Options) -> None:
    head = git(project, "rev-parse", "HEAD")
    git(project, "tag", "v1")
    git(project, "remote", "add", "origin", "https://me:t0ken@example.com/team/project.git")
    record = await prepare(home, "w", project, git=HOST, options=options)
    assert (record.mode, record.commit, record.branch) == (options.mode, head, "main")
    assert record.source == str(project) and record.base in {path.name for path in home.bases.iterdir()}
    assert await seen(home, "w") == WHOLE
    result = await in_jail(
        home,
        "w",
        "git status --porcelain; git log --format=%H; git branch --show-current; git tag\n"
        "git remote -v | head -1; "
        "echo x >> README.md; git status --porcelain; git diff --stat | tail -1; git fsck --strict 2>&1",
    )
    assert result.split("\n") == [
        head,
        "main",
        "v1",
        "origin\thttps://example.com/team/project.git (fetch)",
        " M README.md",
        " 1 file changed, 1 insertion(+)",
        "",
    ]
    assert leftovers(home) == []
    assert Record.read(home.workspace("w")) == record


async def test_git_in_the_jail_reads_no_file_to_see_that_nothing_changed(home: Home, project: Path) -> None:
    """After a copy, inodes and times of change differ; as root, the owner does. None of it may matter."""
    for id, options in (("a", COPY), ("b", OVERLAY)):
        await prepare(home, id, project, git=HOST, options=options)
        # This compares what is noted of a file with the file's stat, and names it when that differs.
        assert await in_jail(home, id, "git diff-files --name-only") == ""
        assert await in_jail(home, id, "touch README.md; git diff-files --name-only") == "README.md\n"


async def test_a_branch_a_tag_and_a_commit(home: Home, project: Path) -> None:
    first = git(project, "rev-parse", "HEAD")
    git(project, "tag", "-a", "v1", "-m", "annotated")
    git(project, "checkout", "--quiet", "-b", "feature/x")
    second = commit(project, {"new.txt": "new\n"})
    git(project, "checkout", "--quiet", "main")
    wanted = {"a": "feature/x", "b": "v1", "c": second, "d": second[:10], "e": None}
    records = {id: await prepare(home, id, project, git=HOST, revision=name) for id, name in wanted.items()}
    assert {id: (record.commit, record.branch) for id, record in records.items()} == {
        "a": (second, "feature/x"),
        "b": (first, None),
        "c": (second, None),
        "d": (second, None),
        "e": (first, "main"),
    }
    assert (tree(home, "a") / "new.txt").exists() and not (tree(home, "b") / "new.txt").exists()
    with pytest.raises(NotFound, match=r"has no branch, tag or commit 'feature/y'. Did you mean feature/x\?"):
        await prepare(home, "f", project, git=HOST, revision="feature/y")
    with pytest.raises(BadRequest, match="cannot be a branch"):
        await prepare(home, "f", project, git=HOST, revision="--all")


async def test_the_second_one_needs_neither_jail_nor_git(home: Home, project: Path) -> None:
    result: list[Progress] = []
    first = await prepare(home, "a", project, git=HOST, on_progress=result.append)
    assert "Reading the repository" in {each.step for each in result}
    result.clear()
    (project / ".git/objects").rename(project / ".git/hidden")  # git could not read a thing now
    second = await prepare(home, "b", project, git=HOST, on_progress=result.append)
    assert {each.step for each in result} == {"Copying files"}
    assert second.base == first.base and await seen(home, "b") == WHOLE


async def test_a_new_commit_makes_a_new_base_and_old_ones_stay(home: Home, project: Path) -> None:
    first = await prepare(home, "a", project, git=HOST)
    commit(project, {"README.md": "changed\n"})
    git(project, "tag", "later")
    second = await prepare(home, "b", project, git=HOST)
    assert first.base != second.base
    assert (await seen(home, "a"))["README.md"] == b"# A project\n"
    assert (await seen(home, "b"))["README.md"] == b"changed\n"
    assert await in_jail(home, "b", "git log --oneline | wc -l; git tag") == "2\nlater\n"


async def test_over_a_connection(home: Home, project: Path, tmp_path: Path) -> None:
    with serving(tmp_path, password="me:s3cret") as server:
        repo = parse_repo_url(server.url("project/.git", user="me:s3cret"))
        result: list[Progress] = []
        record = await prepare(home, "a", repo, git=HOST, on_progress=result.append)
        assert "s3cret" not in str(record) and record.branch == "main"
        await prepare(home, "b", repo, git=HOST, revision=record.commit, options=OVERLAY)
        assert await seen(home, "a") == await seen(home, "b") == WHOLE
        second = commit(project, {"new": "x"})
        assert (await prepare(home, "c", repo, git=HOST)).commit == second
    assert {"Asking the repository", "Receiving objects"} <= {each.step for each in result}
    everything = b"".join(path.read_bytes() for path in home.data.rglob("*") if path.is_file())
    assert b"s3cret" not in everything
    assert "127.0.0.1" in await in_jail(home, "a", "git remote -v; git log --oneline")


async def test_a_bare_repository_and_a_file_url(home: Home, project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", "project", "bare.git")
    await prepare(home, "a", parse_repo_url(f"file://{tmp_path}/bare.git"), git=HOST)
    assert await seen(home, "a") == WHOLE


async def test_a_linked_worktree(home: Home, project: Path, tmp_path: Path) -> None:
    git(project, "worktree", "add", "--quiet", "-b", "side", str(tmp_path / "linked"))
    commit(tmp_path / "linked", {"side.txt": "s\n"})
    (tmp_path / "linked/loose.txt").write_text("l\n")
    record = await prepare(home, "a", tmp_path / "linked", git=HOST, uncommitted=True)
    assert record.branch == "side"
    assert await seen(home, "a") == {**WHOLE, "side.txt": b"s\n", "loose.txt": b"l\n"}


async def test_a_dot_git_that_points_elsewhere_is_refused(home: Home, project: Path, tmp_path: Path) -> None:
    """Otherwise a user's directory could name the repository of another user."""
    (tmp_path / "lure").mkdir()
    (tmp_path / "lure/.git").write_text(f"gitdir: {project}/.git\n")
    with pytest.raises(BadRequest, match="does not point back"):
        await prepare(home, "a", tmp_path / "lure", git=HOST)
    (tmp_path / "lure/.git").unlink()
    (tmp_path / "lure/.git").symlink_to(project / ".git")
    with pytest.raises(BadRequest, match="is a link"):
        await prepare(home, "a", tmp_path / "lure", git=HOST)


async def test_a_shallow_repository(home: Home, project: Path, tmp_path: Path) -> None:
    commit(project, {"two": "2"})
    git(tmp_path, "clone", "--quiet", "--depth=1", f"file://{project}", "shallow")
    await prepare(home, "a", tmp_path / "shallow", git=HOST)
    assert await in_jail(home, "a", "git log --oneline | wc -l; git status --porcelain") == "1\n"
    git(tmp_path / "shallow", "fetch", "--quiet", "--unshallow")
    commit(tmp_path / "shallow", {"three": "3"})
    await prepare(home, "b", tmp_path / "shallow", git=HOST)
    assert await in_jail(home, "b", "git log --oneline | wc -l; git fsck 2>&1") == "3\n"


async def test_a_directory_without_git_is_copied_whole(home: Home, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    (plain / "a/empty").mkdir(parents=True)
    (plain / "a/run").write_text("#!/bin/sh\n")
    (plain / "a/run").chmod(0o6755)
    (plain / "a").chmod(0o1777)
    (plain / "link").symlink_to("/etc/passwd")
    (plain / "loop").symlink_to("loop")
    (plain / os.fsdecode(b"n\xff\n\x1b")).write_text("odd")
    os.mkfifo(plain / "fifo")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(plain / "socket"))
        if os.geteuid() == 0:
            os.mknod(plain / "device", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        os.setxattr(plain / "a", "user.overlay.opaque", b"y")
        record = await prepare(home, "w", plain, git=HOST)
    found = tree(home, "w")
    devices = ["device"] if os.geteuid() == 0 else []
    left_out = ", ".join(sorted([*devices, "fifo", "socket"]))
    assert ", ".join(sorted(record.notes[0].partition(": ")[2].rstrip(".").split(", "))) == left_out
    names = {path.name for path in found.iterdir()}
    assert names == {"a", "link", "loop", os.fsdecode(b"n\xff\n\x1b")}
    assert (found / "a/run").stat().st_mode & 0o7777 == 0o755
    assert (found / "a").stat().st_mode & 0o7777 == 0o777
    assert str((found / "link").readlink()) == "/etc/passwd" and (found / "a/empty").is_dir()
    assert os.listxattr(found / "a") == []
    assert record.base is None and record.mode == "copy"


async def test_starter_files(home: Home) -> None:
    files = {"src/a.py": StarterFile(b"a\n"), "b": StarterFile(b"\0", executable=True)}
    record = await prepare(home, "w", files, git=HOST)
    assert content(tree(home, "w")) == {"src/a.py": b"a\n", "b": b"\0"}
    assert [(tree(home, "w") / name).stat().st_mode & 0o777 for name in files] == [0o644, 0o755]
    assert (record.source, record.base) == ("", None)
    for name in ("/etc/x", "../x", "a/../../x", "", "a/"):
        with pytest.raises((BadRequest, Conflict, NotFound)):
            await prepare(home, "x", {"ok": EMPTY, name: EMPTY}, git=HOST)
    with pytest.raises(Conflict):
        await prepare(home, "x", {"a": EMPTY, "a/b": EMPTY}, git=HOST)
    assert leftovers(home) == [] and not home.workspace("x").exists()


async def test_what_makes_no_sense_is_refused(home: Home, project: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    url = parse_repo_url("https://example.com/p")
    cases = [
        ({"source": tmp_path / "gone"}, "There is no directory"),
        ({"source": tmp_path}, "contains Hutch's own data"),
        ({"source": tmp_path / "plain", "revision": "main"}, "is not a git repository"),
        ({"source": {"a": b""}, "revision": "main"}, "Starter files have no branches"),
        ({"source": url, "uncommitted": True}, "is remote"),
        ({"source": project, "revision": "main", "uncommitted": True}, "Omit the revision"),
    ]
    for words, why in cases:
        with pytest.raises(BadRequest, match=why):
            await prepare(home, "w", git=HOST, **words)
    for id in ("", "../x", ".hidden", "a/b", "x" * 65, "a\n"):
        with pytest.raises(BadRequest, match="cannot be a workspace's id"):
            await prepare(home, id, project, git=HOST)
    await prepare(home, "w", project, git=HOST)
    with pytest.raises(Conflict, match="There is a workspace 'w' already"):
        await prepare(home, "w", project, git=HOST)
    assert leftovers(home) == []


async def test_an_empty_repository_is_refused_with_a_reason(home: Home, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "--quiet")
    with pytest.raises(Conflict, match="is empty: it has no commit yet"):
        await prepare(home, "w", tmp_path / "empty", git=HOST)


async def test_submodules_and_lfs_pointers_are_left_as_they_are(home: Home, project: Path) -> None:
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 12345\n"
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    commit(project, {".gitattributes": attributes, "model.bin": pointer})
    head = git(project, "rev-parse", "HEAD")
    git(project, "update-index", "--add", "--cacheinfo", f"160000,{head},vendor/lib")
    (project / ".gitmodules").write_text('[submodule "lib"]\n\tpath = vendor/lib\n\turl = ../lib\n')
    git(project, "add", ".gitmodules")
    git(project, "commit", "--quiet", "-m", "sub")
    record = await prepare(home, "w", project, git=HOST)
    assert record.notes == (
        "Submodules are empty, because Hutch does not fetch them: vendor/lib. If they are needed, allow "
        "the host of their address in .gitmodules (--net HOST) and run `git submodule update --init` in "
        "the jail.",
        "Files in git-lfs are pointers only: model.bin.",
    )
    assert (tree(home, "w") / "model.bin").read_text() == pointer
    assert list((tree(home, "w") / "vendor/lib").iterdir()) == []
    assert await in_jail(home, "w", "git status --porcelain") == ""


async def test_hostile_names_and_trees(home: Home, tmp_path: Path) -> None:
    hostile = tmp_path / "hostile"
    names = [
        "-rf",
        "a\nb",
        "\x1b[2J",
        "$(touch x)",
        "caf\u00e9",
        "cafe\u0301",
        "UP",
        "up",
        " ",
        "a\tb",
        "*",
        "CON",
        "\\",
    ]
    make_repository(hostile, {name: name for name in names})
    (hostile / os.fsdecode(b"bad\xffbyte")).write_text("x")
    (hostile / "out").symlink_to("/etc")
    (hostile / "up-and-out").symlink_to("../../../../../etc/passwd")
    (hostile / "loop-a").symlink_to("loop-b")
    (hostile / "loop-b").symlink_to("loop-a")
    commit(hostile, {})
    for id, options in (("a", COPY), ("b", OVERLAY)):
        await prepare(home, id, hostile, git=HOST, options=options)
        found = await seen(home, id)
        assert {name for name in found if isinstance(found[name], bytes)} == {
            *names,
            os.fsdecode(b"bad\xffbyte"),
        }
        assert found["out"] == "/etc" and found["loop-a"] == "loop-b"
        assert await in_jail(home, id, "git status --porcelain") == ""


async def test_a_tree_that_would_escape_is_refused(home: Home, project: Path) -> None:
    blob = git(project, "hash-object", "-w", "--stdin", stdin=b"x")
    for name in (".git", "..", ".GIT"):
        below = git(project, "mktree", stdin=f"100644 blob {blob}\tconfig\n".encode())
        commit_tree(project, git(project, "mktree", stdin=f"040000 tree {below}\t{name}\n".encode()))
        with pytest.raises(BadRequest, match="holds objects that git refuses"):
            await prepare(home, "w", project, git=HOST)
    assert leftovers(home) == []


async def test_a_link_and_a_directory_of_one_name_write_nothing_outside(home: Home, project: Path) -> None:
    """A tree with the same name twice: once a link out, once a directory with a file."""
    target = git(project, "hash-object", "-w", "--stdin", stdin=b"../..")
    blob = git(project, "hash-object", "-w", "--stdin", stdin=b"pwned")
    below = git(project, "mktree", stdin=f"100644 blob {blob}\tpwned\n".encode())
    entries = f"120000 blob {target}\tx\n040000 tree {below}\tx\n"
    commit_tree(project, git(project, "mktree", stdin=entries.encode()))
    with pytest.raises(BadRequest):
        await prepare(home, "w", project, git=HOST)
    assert not list(home.data.rglob("pwned"))


async def test_programs_that_the_repository_names_do_not_run_on_the_host(
    home: Home, project: Path, tmp_path: Path
) -> None:
    """Everything that git would run for a repository here, each leaving a mark when it runs on the host."""
    proof = tmp_path / "proof"
    proof.mkdir(mode=0o777)
    proof.chmod(0o777)

    def command(name: str) -> str:
        return f"sh -c 'touch {proof}/{name}; cat' --"

    commit(project, {".gitattributes": "*.md filter=evil diff=evil\n*.bin filter=lfs\n"})
    settings = {
        "core.fsmonitor": f"touch {proof}/fsmonitor",
        "core.sshCommand": command("ssh"),
        "core.alternateRefsCommand": command("alternates"),
        "uploadpack.packObjectsHook": command("pack"),
        "filter.evil.clean": command("clean"),
        "filter.evil.smudge": command("smudge"),
        "filter.evil.required": "true",
        "filter.lfs.clean": command("lfs"),
        "diff.evil.textconv": command("textconv"),
        "core.hooksPath": "hooks",
        "remote.origin.url": "ext::sh -c 'touch proof'",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
    }
    for name in ("post-checkout", "reference-transaction", "post-index-change", "fsmonitor-watchman"):
        (project / "hooks").mkdir(exist_ok=True)
        (project / "hooks" / name).write_text(f"#!/bin/sh\ntouch {proof}/hook\n")
        (project / "hooks" / name).chmod(0o755)
    for name, value in settings.items():
        git(project, "config", name, value)
    (project / "README.md").write_text("uncommitted\n")
    record = await prepare(home, "w", project, git=HOST, uncommitted=True)
    assert (tree(home, "w") / "README.md").read_text() == "uncommitted\n"
    assert list(proof.iterdir()) == []
    assert record.commit == git(project, "-c", "core.fsmonitor=false", "rev-parse", "HEAD")
    # With the guard off, the same git on the host runs them: it is the jail that stops it.
    subprocess.run(["git", "-C", str(project), "status"], capture_output=True, check=False)
    assert {path.name for path in proof.iterdir()} & {"fsmonitor", "clean"}


async def test_too_much_for_the_quota(home: Home, project: Path, tmp_path: Path) -> None:
    few, little = Options(mode="copy", quota_files=5), Options(mode="copy", quota_bytes=100_000)
    with pytest.raises(LimitReached, match=r"has 10 files, and a workspace may have 5. Raise"):
        await prepare(home, "a", project, git=HOST, options=few)
    with pytest.raises(LimitReached, match=r"may have 97.66 KiB. Raise workspace.quota_bytes"):
        await prepare(home, "a", project, git=HOST, options=little)
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain/big").write_bytes(b"x" * 200_000)
    with pytest.raises(LimitReached, match="quota_bytes"):
        await prepare(home, "a", tmp_path / "plain", git=HOST, options=little)
    with pytest.raises(LimitReached, match="quota_bytes"):
        await prepare(home, "a", {"big": StarterFile(b"x" * 200_000)}, git=HOST, options=little)
    assert leftovers(home) == []


async def test_cancelling_leaves_nothing_behind(home: Home, project: Path) -> None:
    commit(project, {f"d{number % 20}/f{number}": f"{number}\n" * 20 for number in range(500)})
    for delay_s in (0, 0.01, 0.03, 0.06, 0.1, 0.15, 0.25, 0.4):
        preparing = asyncio.ensure_future(prepare(home, "w", project, git=HOST, uncommitted=True))
        await asyncio.sleep(delay_s)
        preparing.cancel()
        try:
            await preparing
        except asyncio.CancelledError:
            assert not home.workspace("w").exists()
        else:
            break
        assert leftovers(home) == []
    if not home.workspace("w").exists():
        await prepare(home, "w", project, git=HOST)
    assert len(await seen(home, "w")) == 505


PREPARING = """
import asyncio, os, pathlib, sys
sys.path.insert(0, sys.argv[1])
from tests.workspace.preparation_fixtures import HOST, Home
from hutch.workspace.lifecycle.workspace_builder import prepare
home, source, id, die = Home(pathlib.Path(sys.argv[2])), pathlib.Path(sys.argv[3]), sys.argv[4], sys.argv[5]
def report(progress):
    if progress.step == die:
        os.kill(os.getpid(), 9)
record = asyncio.run(prepare(home, id, source, git=HOST, on_progress=report))
print(record.base)
"""


def preparing(home: Home, source: Path, id: str, die: str = "") -> list[str]:
    root = str(Path(__file__).parents[2])
    return [sys.executable, "-c", PREPARING, root, str(home.data), str(source), id, die]


async def test_what_a_killed_one_leaves_is_swept(home: Home, project: Path) -> None:
    for step in ("Reading the repository", "Copying files"):
        ran = run(preparing(home, project, "w", step), env=PLAIN, capture_output=True)
        assert ran.returncode == -9, ran.stderr
        assert leftovers(home) != [] and not home.workspace("w").exists()
        assert remove_leftovers(home) and leftovers(home) == []
    await prepare(home, "w", project, git=HOST)


async def test_processes_that_prepare_the_same_at_once_share_one_base(home: Home, project: Path) -> None:
    running = [
        Forked(
            preparing(home, project, f"w{number}"), env=PLAIN, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for number in range(3)
    ]
    result = [process.communicate() for process in running]
    assert [error for _, error in result] == [b""] * 3
    assert len({base for base, _ in result}) == 1
    for number in range(3):
        assert await seen(home, f"w{number}") == WHOLE


async def test_one_id_for_two_at_once_is_one_workspace(home: Home, project: Path) -> None:
    tries = [prepare(home, "w", project, git=HOST) for _ in range(4)]
    done = await asyncio.gather(*tries, return_exceptions=True)
    assert [type(each) for each in done].count(Record) == 1
    assert all(isinstance(each, Record | Conflict) for each in done)
    assert leftovers(home) == []


async def test_a_bare_repository_has_nothing_uncommitted(home: Home, project: Path, tmp_path: Path) -> None:
    git(tmp_path, "clone", "--quiet", "--bare", str(project), "bare.git")
    with pytest.raises(BadRequest, match=r"is a bare repository: it has no uncommitted files"):
        await prepare(home, "a", tmp_path / "bare.git", git=HOST, uncommitted=True)
