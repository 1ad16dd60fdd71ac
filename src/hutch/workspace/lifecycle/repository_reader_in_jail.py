"""Reads a repository on this machine from inside a jail.

Its `.git` is untrusted: settings, filters, hooks and a file monitor can name programs
that git on the host would run. So git runs in a jail with read-only access to the
repository, and its output is checked. Objects are piped into the mirror, where git on
the host verifies each of them.
"""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound, Unavailable
from hutch.domain.truncation_before_redaction import first_words
from hutch.forge.bare_mirror import (
    COMMIT,
    BranchList,
    add_ref,
    branch_list,
    ensure_mirror,
    replace_tags,
    unknown_revision_error,
)
from hutch.forge.git_progress import OnProgress
from hutch.forge.host_git import Git, GitFailed, strict_option
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.interface import Finished, Jail, Reader
from hutch.jail.jail_directory_and_namespaces import JailLocation
from hutch.jail.jail_startup import open_jail
from hutch.jail.policy import MAX_TIMEOUT_S, TOOL, Policy
from hutch.workspace.lifecycle.repository_and_head_detection import Head, Layout
from hutch.workspace.lifecycle.workspace_and_cache_removal import discard

REF = re.compile(r"refs/(heads|tags)/[^\x00-\x20\x7f~^:?*\[\\]{1,250}")
SAFE_SETTINGS = {
    "safe.directory": "*",  # the owner of the files does not matter here
    "core.fsmonitor": "false",
    "core.checkStat": "minimal",  # the owner may look different
    "core.trustctime": "false",
    "filter.lfs.clean": "",
    "filter.lfs.process": "",
    "filter.lfs.required": "false",
    "pack.threads": "1",
    "pack.window": "0",  # keep existing deltas; make no new ones, for speed
    "pack.compression": "1",
    "gc.auto": "0",
}
ENVIRONMENT = {
    "GIT_CONFIG_COUNT": str(len(SAFE_SETTINGS)),
    **{f"GIT_CONFIG_KEY_{number}": name for number, name in enumerate(SAFE_SETTINGS)},
    **{f"GIT_CONFIG_VALUE_{number}": value for number, value in enumerate(SAFE_SETTINGS.values())},
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
MAX_TAGS, MAX_KNOWN_COMMITS = 2000, 256
# With a separate index, and without filters: the repository is only read.
CHECK_OUT = """to=$1
shift
mkdir -- "$to" && export GIT_INDEX_FILE="$to.index" GIT_WORK_TREE="$to" && "$@" read-tree HEAD &&
    "$@" checkout-index --all --force --quiet"""
LISTING_BYTES = 64 * 1024 * 1024
GIT_TIMEOUT_S = 60.0  # of one command; a pipe in place of a file would block git forever
FAULT = re.compile(r"^(error: )?(in )?object [0-9a-f]{40}: ")  # the line that names the object
BORROWED_OBJECTS = re.compile(r"alternate object path|info/alternates")


class JailedRepository:
    """A repository in a jail. Its answers are untrusted, and are checked here."""

    def __init__(self, jail: Jail, layout: Layout) -> None:
        self.jail = jail
        self._root = layout.root
        self.is_bare = layout.bare
        self._git = ["git", "--git-dir=."] if layout.bare else ["git"]
        # Its files are in the named directory, whatever core.worktree says.
        self._environment = ENVIRONMENT if layout.bare else {**ENVIRONMENT, "GIT_WORK_TREE": "."}
        # Relative paths to other directories need the real working directory.
        self._cwd = str(layout.root) if layout.external else None

    async def head(self, revision: str | None) -> Head:
        """The commit of a branch, tag or id; None means the checked-out one."""
        name = await self._full_name(revision) if revision else "HEAD"
        asked = await self._run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}")
        commit = asked.stdout.decode(errors="replace").strip()
        if asked.exit_code != 0 or not COMMIT.fullmatch(commit):
            raise await self._refusal(revision, asked)
        of_head = ("symbolic-ref", "--quiet", "HEAD")
        printed = await self._run(*(("rev-parse", "--symbolic-full-name", name) if revision else of_head))
        ref = printed.stdout.decode("utf-8", "surrogateescape").strip()
        is_branch = REF.fullmatch(ref) and ref.startswith("refs/heads/")
        return Head(commit, ref.removeprefix("refs/heads/") if is_branch else None, await self.origin())

    async def branches(self, max_names: int) -> BranchList:
        """The branches, the checked-out one first."""
        words = ("for-each-ref", f"--count={max_names + 1}", "--format=%(refname)", "refs/heads")
        listed = await self._run(*words)
        if listed.exit_code != 0:
            raise await self._refusal(None, listed)
        of_head = await self._run("symbolic-ref", "--quiet", "HEAD")
        head = of_head.stdout.decode("utf-8", "surrogateescape").strip()
        refs = listed.stdout.decode("utf-8", "surrogateescape").split("\n")[:-1]
        # A branch without a commit is no branch yet; one beyond the maximum is listed even so.
        has_head = head in refs or (await self._run("show-ref", "--verify", "--quiet", head)).exit_code == 0
        default = head.removeprefix("refs/heads/") if has_head else None
        return branch_list([head, *refs] if has_head else refs, default, max_names)

    async def _full_name(self, revision: str) -> str:
        """Prefer a branch to a tag of the same name, as everywhere in Hutch, unlike git."""
        if revision.startswith("refs/") or COMMIT.fullmatch(revision):
            return revision
        both = (f"refs/heads/{revision}", f"refs/tags/{revision}")
        listed = await self._run("for-each-ref", "--format=%(refname)", *both)
        there = listed.stdout.decode("utf-8", "surrogateescape").split("\n")
        return next((ref for ref in both if ref in there), revision)

    async def pack(self, git: Git, mirror: Path, commit: str, *, on_progress: OnProgress | None) -> None:
        """Copy the commit with its history and tags into the mirror."""
        shallow = await self._shallow()
        if shallow != _lines(mirror / "shallow"):
            await asyncio.to_thread(discard, mirror)  # the history was truncated or completed: start again
        await ensure_mirror(git, mirror)
        if shallow:
            (mirror / "shallow").write_text("".join(f"{id}\n" for id in shallow))
        tags = await self._tags(commit)
        revisions = [commit, *tags.values(), "--not", *await self._known(git, mirror)]
        await self._transfer(git, mirror, revisions, on_progress)
        try:
            await git.run("rev-list", "--objects", "--quiet", commit, "--not", "--all", git_dir=mirror)
        except GitFailed as error:
            raise BadRequest(
                f"{self._root} lacks objects of {commit[:12]}: {_last_line(error.stderr)}. "
                "Run `git fsck` there."
            ) from None
        await replace_tags(git, mirror, tags)
        await add_ref(git, mirror, commit, commit)

    async def changes(self) -> list[str]:
        """Paths that are modified, or new and not ignored. A trailing slash means everything below."""
        listed = await self._run(
            *("status", "--porcelain=v2", "-z", "--untracked-files=all"),
            *("--ignore-submodules=all", "--no-renames"),
        )
        if listed.exit_code is None:
            raise self._stopped(listed)
        if listed.exit_code != 0:
            raise BadRequest(f"git cannot list the changes in {self._root}: {_stderr_line(listed)}.")
        if listed.truncated:
            raise BadRequest(f"{self._root} has too many uncommitted files. Commit some.")
        paths = []
        for line in listed.stdout.split(b"\0"):
            before = {b"1 ": 8, b"u ": 10, b"? ": 1}.get(line[:2])
            if before is not None and line.count(b" ") >= before:
                paths.append(os.fsdecode(line.split(b" ", before)[before]))
        return list(dict.fromkeys(paths))

    async def is_uncommitted(self, path: str) -> bool:
        """True if a file differs from the committed one, or is not committed at all."""
        if self.is_bare:
            return False
        found = await self._run(
            *("status", "--porcelain=v2", "-z", "--untracked-files=all", "--ignored=matching"), "--", path
        )
        return found.exit_code == 0 and bool(found.stdout)

    async def names(self, max_names: int) -> list[str]:
        """Paths of committed files and directories, those of the top directory first."""
        names: dict[str, None] = {}
        for deep in ((), ("-r", "-t")):
            listed = await self._run("ls-tree", "-z", "--name-only", "--full-tree", *deep, "HEAD")
            if listed.exit_code != 0:
                raise await self._refusal(None, listed)
            paths = listed.stdout.split(b"\0")[:-1]
            names |= dict.fromkeys(os.fsdecode(path) for path in paths[:max_names])
        return list(names)

    async def read(self, path: str, commit: str = "HEAD") -> bytes | None:
        """A committed file; None if it does not exist or is too large."""
        shown = await self._run("cat-file", "blob", f"{commit}:{path}")
        return shown.stdout if shown.exit_code == 0 and not shown.truncated else None

    async def check_out(self, directory: str, *, timeout_s: float) -> bool:
        """Check out the commit into a new directory of the jail. Returns False on failure or timeout."""
        argv = ["/bin/sh", "-c", CHECK_OUT, "check-out", directory, *self._git]
        ran = await self.jail.run(argv, env=ENVIRONMENT, cwd=self._cwd, timeout_s=timeout_s)
        return ran.exit_code == 0

    async def origin(self) -> str | None:
        """The address of the remote `origin` without credentials; None if there is no valid one."""
        asked = await self._run("config", "--get", "remote.origin.url")
        address = asked.stdout.decode(errors="replace").strip()
        try:
            return parse_repo_url(address).address if address else None
        except BadRequest:
            return None

    async def _transfer(
        self, git: Git, mirror: Path, revisions: list[str], on_progress: OnProgress | None
    ) -> None:
        packing = await self.jail.spawn(
            [*self._git, "pack-objects", "--revs", "--stdout", "--quiet", "--delta-base-offset"],
            stdin="".join(f"{revision}\n" for revision in revisions).encode(),
            env=self._environment,
            cwd=self._cwd,
        )
        assert packing.stdout is not None and packing.stderr is not None
        reading_stderr = asyncio.ensure_future(_tail(packing.stderr))
        try:
            os.set_blocking(packing.stdout.fd, True)  # git itself reads it
            await git.run(
                *("index-pack", "--stdin", strict_option(), "-v"),
                git_dir=mirror,
                stdin=packing.stdout.fd,
                on_progress=on_progress,
                timeout_s=MAX_TIMEOUT_S,
            )
        except GitFailed as error:
            stderr = await reading_stderr if (await packing.wait()).code else error.stderr
            if BORROWED_OBJECTS.search(stderr):
                raise self._borrowing() from None
            raise BadRequest(
                f"{self._root} holds objects that git refuses: {_fault_line(stderr)}. Run `git fsck` there."
            ) from None
        finally:
            reading_stderr.cancel()
            await packing.kill()
            packing.close()

    async def _known(self, git: Git, mirror: Path) -> list[str]:
        """Commits in both the mirror and the repository, which need no transfer."""
        words = ("for-each-ref", f"--count={MAX_KNOWN_COMMITS}", "--format=%(objectname)")
        have = (await git.run(*words, git_dir=mirror)).decode().split()
        if not have:
            return []
        asked = await self._run("cat-file", "--batch-check", stdin="".join(f"{id}\n" for id in have).encode())
        there = [line.split(" ") for line in asked.stdout.decode(errors="replace").split("\n")]
        return [id for id, *rest in there if id in have and rest and rest[0] in ("commit", "tag")]

    async def _run(self, *words: str, stdin: bytes | None = None) -> Finished:
        return await self.jail.run(
            [*self._git, *words],
            stdin=stdin,
            env=self._environment,
            cwd=self._cwd,
            timeout_s=GIT_TIMEOUT_S,
            limits=replace(self.jail.policy.limits, output_bytes=LISTING_BYTES),
        )

    def _stopped(self, finished: Finished) -> Unavailable:
        return Unavailable(
            f"git was stopped while it read {self._root}: {finished.limit_hit or 'it crashed'}. "
            "Run `git fsck` there."
        )

    def _borrowing(self) -> BadRequest:
        return BadRequest(
            f"{self._root} borrows objects from another repository, as clones made with --shared or "
            "--reference do, and Hutch reads only the named directory. Name the other one, or run "
            "`git repack -a -d` here and remove .git/objects/info/alternates."
        )

    async def _refusal(self, revision: str | None, asked: Finished) -> HutchError:
        if asked.exit_code is None:
            return self._stopped(asked)
        if BORROWED_OBJECTS.search(asked.stderr.decode(errors="replace")):
            return self._borrowing()
        answer = asked.stdout.decode(errors="replace").strip()
        looked = await self._run("rev-parse", "--git-dir")
        if looked.exit_code is None:
            return self._stopped(looked)
        if looked.exit_code != 0:
            return BadRequest(f"{self._root} is not a repository that git can read: {_stderr_line(looked)}.")
        if re.fullmatch(r"[0-9a-f]{64}", answer):
            return BadRequest(f"{self._root} names its objects by SHA-256. Only SHA-1 is supported.")
        listed = await self._run("for-each-ref", "--format=%(refname:lstrip=2)", "refs/heads", "refs/tags")
        names = listed.stdout.decode(errors="replace").split("\n")[:-1]
        if revision is not None:
            return unknown_revision_error(str(self._root), revision, names)
        if names:
            shown = ascii(", ".join(names[:5]))[1:-1]
            return NotFound(f"{self._root} has nothing checked out. Name a branch: {shown}.")
        return Conflict(f"{self._root} is empty: it has no commit yet. Commit something first.")

    async def _tags(self, commit: str) -> dict[str, str]:
        shape = ("--format=%(objectname) %(refname)", f"--count={MAX_TAGS}")
        listed = await self._run("for-each-ref", *shape, f"--merged={commit}", "refs/tags")
        tags = {}
        for line in listed.stdout.decode("utf-8", "surrogateescape").split("\n"):
            id, _, ref = line.partition(" ")
            if COMMIT.fullmatch(id) and REF.fullmatch(ref) and ref.startswith("refs/tags/"):
                tags[ref] = id
        return tags

    async def _shallow(self) -> list[str]:
        where = os.fsdecode((await self._run("rev-parse", "--git-path", "shallow")).stdout).strip()
        printed = await self.jail.run(["cat", "--", where], cwd=self._cwd, timeout_s=GIT_TIMEOUT_S)
        lines = printed.stdout.decode(errors="replace").split("\n") if printed.exit_code == 0 else []
        return sorted(line for line in lines if COMMIT.fullmatch(line))


@asynccontextmanager
async def open_jailed_repository(
    layout: Layout, scratch: Path, policy: Policy = TOOL
) -> AsyncIterator[JailedRepository]:
    """Open a repository in a jail, read-only. `scratch` is an empty directory."""
    beside = (layout.root, *layout.external) if layout.external else ()
    pinned = (*layout.held[:1], *layout.held) if layout.external else layout.held
    place = JailLocation(layout.root, scratch, beside=beside, pinned=pinned)
    async with open_jail(place, replace(policy, writable=False)) as jail:
        yield JailedRepository(jail, layout)


async def _tail(stream: Reader) -> str:
    """Read a stream to its end, and return its last part."""
    stderr = b""
    while data := await stream.read():
        stderr = (stderr + data)[-4096:]
    return stderr.decode(errors="replace")


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except FileNotFoundError:
        return []


def _stderr_line(finished: Finished) -> str:
    return _last_line(finished.stderr.decode(errors="replace"))


def _fault_line(stderr: str) -> str:
    """The line that names the bad object; the last line does not."""
    return _last_line(next((line for line in stderr.splitlines() if FAULT.match(line)), stderr))


def _last_line(stderr: str) -> str:
    lines = [line for line in stderr.splitlines() if line.strip()]
    return (
        ascii(first_words(lines[-1], 300))[1:-1].removeprefix("fatal: ").removeprefix("error: ")
        if lines
        else "no reason given"
    )
