"""A bare mirror of a remote repository.

Branches are fetched on demand, each under a ref name that cannot collide. The whole
history is fetched once and shared by all workspaces of the repository, because users
and agents read it. Callers hold the lock of the mirror.
"""

import asyncio
import difflib
import hashlib
import os
import re
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path

from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.domain.lone_surrogate_replacement import replace_surrogates
from hutch.forge.git_progress import OnProgress
from hutch.forge.host_git import Git, GitFailed
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

COMMIT = re.compile(r"[0-9a-f]{40}")
ABBREVIATED = re.compile(r"[0-9a-f]{7,40}")
REVISION = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\-][^\x00-\x20\x7f~^:?*\[\\]{0,254}")
READY_FILE = "hutch.ready"  # created last
LIST_TIMEOUT_S, LIST_BYTES = 20.0, 4 * 1024 * 1024  # of the branches that a user chooses from


@dataclass(frozen=True, slots=True)
class FoundRevision:
    """A commit of a repository, and the ref that led to it."""

    commit: str
    ref: str | None = None

    @property
    def branch(self) -> str | None:
        return (
            self.ref.removeprefix("refs/heads/") if self.ref and self.ref.startswith("refs/heads/") else None
        )


@dataclass(frozen=True, slots=True)
class BranchList:
    """Branches of a repository, and the one that is its default."""

    default: str | None
    names: tuple[str, ...]
    more: bool = False  # whether the repository has others


def branch_list(
    refs: Iterable[str], default: str | None, max_names: int, *, more: bool = False
) -> BranchList:
    """The branches among untrusted refs, the default first. Omits names that no request could give."""
    names = {ref.removeprefix("refs/heads/"): None for ref in refs if ref.startswith("refs/heads/")}
    known = [name for name in names if _is_ref(name) and replace_surrogates(name) == name]
    if default not in known:
        default = None
    else:
        known.sort(key=lambda name: name != default)  # keeps the order of the others
    return BranchList(default, tuple(known[:max_names]), more or len(known) > max_names)


async def list_branches(git: Git, repo: RepoUrl, max_names: int) -> BranchList:
    """Ask the repository for its branches."""
    words = ("ls-remote", "--symref", "--", repo.address, "HEAD", "refs/heads/*")
    printed = await git.run(*words, remote=repo, timeout_s=LIST_TIMEOUT_S, max_bytes=LIST_BYTES)
    whole = printed[: printed.rfind(b"\n") + 1]
    refs = _refs(whole)
    default = (refs.links.get("HEAD") or "").removeprefix("refs/heads/")
    return branch_list(refs.ids, default, max_names, more=len(printed) == LIST_BYTES)


def check_revision(revision: str) -> str:
    """Return a branch, tag or commit that is safe to pass to git. Refuses others."""
    if (
        not REVISION.fullmatch(revision)
        or ".." in revision
        or "@{" in revision
        or revision.endswith(("/", ".lock"))
    ):
        raise BadRequest(
            f"{revision[:80]!a} cannot be a branch, tag or commit. Give a name such as main or v1.2."
        )
    return revision


async def find_revision(git: Git, repo: RepoUrl, revision: str | None) -> FoundRevision:
    """Ask the repository for the commit of a branch or tag; None means its default branch."""
    if revision is not None and COMMIT.fullmatch(revision):
        # Another user may have fetched it. This one must have access to the repository, too.
        await git.run("ls-remote", "--", repo.address, "HEAD", remote=repo)
        return FoundRevision(revision)
    candidates = ["HEAD"] if revision is None else _candidate_refs(revision)
    refs = _refs(await git.run("ls-remote", "--symref", "--", repo.address, *candidates, remote=repo))
    if revision is None:
        if "HEAD" in refs.ids:
            return FoundRevision(refs.ids["HEAD"], refs.links.get("HEAD"))
        await _refuse_empty(git, repo)
        raise NotFound(f"{repo} has no default branch. Name a branch that `git ls-remote` lists.")
    for ref in candidates:
        if ref in refs.ids:
            return FoundRevision(refs.ids.get(f"{ref}^{{}}", refs.ids[ref]), ref)
    if ABBREVIATED.fullmatch(revision):
        return FoundRevision(revision)  # completed after the fetch
    raise await _unknown_revision(git, repo, revision)


async def fetch(
    git: Git, repo: RepoUrl, mirror: Path, found: FoundRevision, *, on_progress: OnProgress | None = None
) -> str:
    """Fetch a commit and its history into the mirror. Returns its full id."""
    await ensure_mirror(git, mirror)
    if await has_commit(git, mirror, found.commit):
        return await resolve(git, mirror, found.commit)
    if found.ref is not None:
        await _fetch(git, repo, mirror, f"+{found.ref}:{_own_ref(found.ref)}", on_progress=on_progress)
    elif COMMIT.fullmatch(found.commit):
        try:
            await _fetch(
                git, repo, mirror, f"+{found.commit}:{_own_ref(found.commit)}", on_progress=on_progress
            )
        except NotFound:  # many servers send only heads of branches
            await _fetch(git, repo, mirror, *ALL_REFS, on_progress=on_progress)
    else:
        await _fetch(git, repo, mirror, *ALL_REFS, on_progress=on_progress)
    try:
        return await resolve(git, mirror, found.commit)
    except GitFailed:
        pass
    if found.ref is not None:  # the branch has moved since it was found
        return await resolve(git, mirror, _own_ref(found.ref))
    raise NotFound(f"{repo} has no commit {found.commit}. Push it first, or name a branch.")


async def ensure_mirror(git: Git, mirror: Path) -> None:
    """Create the mirror, or clean up what a killed process left in it."""
    if not (mirror / READY_FILE).exists():
        await asyncio.to_thread(shutil.rmtree, mirror, ignore_errors=True)
        await git.run("init", "--quiet", "--bare", "--template=", "--", str(mirror))
        (mirror / READY_FILE).touch()
    else:
        await asyncio.to_thread(_remove_leftovers, mirror)


async def has_commit(git: Git, mirror: Path, commit: str) -> bool:
    """True if the mirror has a commit with its whole history."""
    try:
        id = await resolve(git, mirror, commit)
        # An interrupted fetch leaves objects that no ref reaches.
        held = await git.run("for-each-ref", "--count=1", f"--contains={id}", git_dir=mirror)
    except GitFailed:
        return False
    return bool(held)


async def resolve(git: Git, mirror: Path, revision: str) -> str:
    """The full id of a commit."""
    words = ("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    return (await git.run(*words, git_dir=mirror)).decode().strip()


async def add_ref(git: Git, mirror: Path, commit: str, name: str) -> None:
    """Give a commit its own ref, so that it counts as complete."""
    await git.run("update-ref", _own_ref(name), commit, git_dir=mirror)


async def replace_tags(git: Git, mirror: Path, tags: Mapping[str, str]) -> None:
    """Replace all tags. Two steps: the tag `a` must be deleted before `a/b` can be created."""
    old = await git.run("for-each-ref", "--format=delete %(refname)", "refs/tags", git_dir=mirror)
    new = os.fsencode("".join(f"update {ref} {id}\n" for ref, id in tags.items()))
    for commands in (old, new):
        if commands:
            await git.run("update-ref", "--stdin", git_dir=mirror, stdin=commands)


ALL_REFS = ("+refs/heads/*:refs/hutch/heads/*", "+refs/tags/*:refs/tags/*")


async def _fetch(
    git: Git, repo: RepoUrl, mirror: Path, *refspecs: str, on_progress: OnProgress | None
) -> None:
    words = ["fetch", "--progress", "--no-write-fetch-head", "--force", "--no-recurse-submodules"]
    if len(refspecs) > 1:
        words.append("--prune")
    words += ["--", repo.address, *refspecs]
    try:
        await git.run(*words, git_dir=mirror, remote=repo, on_progress=on_progress, timeout_s=3600)
    except Unavailable as error:
        if "cannot lock ref" not in str(error):
            raise
        # A tag `a` was replaced by `a/b`, or the reverse.
        await replace_tags(git, mirror, {})
        await git.run(*words, git_dir=mirror, remote=repo, on_progress=on_progress, timeout_s=3600)


def _remove_leftovers(mirror: Path) -> None:
    """Remove locks and unfinished packs of a killed git; the caller holds the lock."""
    for directory, pattern in (("", "*.lock"), ("refs", "**/*.lock"), ("objects", "**/tmp_*")):
        for path in (mirror / directory).glob(pattern):
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _Refs:
    ids: dict[str, str]
    links: dict[str, str]


def _refs(listing: bytes) -> _Refs:
    """Parse the output of `ls-remote --symref`, which is untrusted."""
    ids, links = {}, {}
    for line in listing.decode(errors="surrogateescape").split("\n"):
        value, _, name = line.partition("\t")
        if COMMIT.fullmatch(value):
            ids[name] = value
        elif value.startswith("ref: refs/heads/") and _is_ref(value[5:]):
            links[name] = value[5:]
    return _Refs(ids, links)


def _is_ref(name: str) -> bool:
    return REVISION.fullmatch(name) is not None and ".." not in name and "//" not in name


def _candidate_refs(revision: str) -> list[str]:
    if revision.startswith("refs/"):
        return [revision, f"{revision}^{{}}"]
    tag = f"refs/tags/{revision}"
    return [f"refs/heads/{revision}", tag, f"{tag}^{{}}"]


def _own_ref(name: str) -> str:
    return f"refs/hutch/one/{hashlib.sha256(name.encode('utf-8', 'surrogateescape')).hexdigest()[:24]}"


async def _unknown_revision(git: Git, repo: RepoUrl, revision: str) -> NotFound:
    """The error for an unknown revision, with similar names."""
    refs = _refs(await git.run("ls-remote", "--heads", "--tags", "--refs", "--", repo.address, remote=repo))
    names = [name.split("/", 2)[2] for name in refs.ids if name.startswith(("refs/heads/", "refs/tags/"))]
    if not names:
        await _refuse_empty(git, repo)
    return unknown_revision_error(str(repo), revision, names)


def unknown_revision_error(where: str, revision: str, names: list[str]) -> NotFound:
    """As `_unknown_revision`, for known names."""
    near = difflib.get_close_matches(revision, names, n=3, cutoff=0.5)
    listed = near or sorted(names)[:5]
    shown = ", ".join(ascii(name)[1:-1] for name in listed)
    hint = f"Did you mean {shown}?" if near else f"It has {shown or 'none'}."
    return NotFound(f"{where} has no branch, tag or commit '{revision}'. {hint}")


async def _refuse_empty(git: Git, repo: RepoUrl) -> None:
    if not await git.run("ls-remote", "--", repo.address, remote=repo):
        raise Conflict(f"{repo} is empty: it has no commit yet. Push one, or start from files instead.")
