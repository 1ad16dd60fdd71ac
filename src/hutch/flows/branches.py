"""The branches of a repository, wherever it is: on another machine, or on this one through a jail."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hutch.domain.errors import Conflict
from hutch.flows import repository_git
from hutch.flows.repository_git import OpenJail
from hutch.forge.git import Git
from hutch.forge.repo_url import RepoUrl
from hutch.jail.seam import Jail
from hutch.workspace.workspace import Workspace

NOWHERE = "0" * 40
PUSH_TIMEOUT_S = 1800.0
CHECK_TIMEOUT_S = 30.0
TRIED = "hutch/may-it-be-pushed"  # never made


class Branches(Protocol):
    """What delivery wants of a repository."""

    async def heads(self) -> dict[str, str]:
        """Branches, and the commits that they are at."""
        ...

    async def put(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        """Have a branch at a commit, with all that is new since `base`. It must be at `old` before, or not
        exist with None; False when it is not so."""
        ...


@asynccontextmanager
async def branches_of(remote: RepoUrl, workspace: Workspace, open_jail: OpenJail) -> AsyncIterator[Branches]:
    """The branches of a repository; commits are taken from the workspace's own git directory."""
    git_dir = workspace.snapshots.storage.git_dir
    if remote.path is None:
        yield _Elsewhere(workspace.git, git_dir, remote)
        return
    async with open_jail(remote.path) as jail:
        yield _Here(workspace.git, git_dir, jail)


async def check_push(remote: RepoUrl, workspace: Workspace) -> None:
    """Refuse a repository elsewhere that takes no push from us; nothing is pushed to find out."""
    assert workspace.record.commit is not None
    elsewhere = _Elsewhere(workspace.git, workspace.snapshots.storage.git_dir, remote)
    await elsewhere.check(workspace.record.commit)


@dataclass(frozen=True, slots=True)
class _Here:
    git: Git
    git_dir: Path
    jail: Jail

    async def heads(self) -> dict[str, str]:
        words = ("for-each-ref", "--format=%(objectname)\t%(refname)", "refs/heads/")
        return _heads((await repository_git.run(self.jail, *words)).stdout)

    async def put(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        if old is not None:
            await self._must_not_be_out(branch)
        pack = await self.git.run(
            *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
            git_dir=self.git_dir,
            stdin=f"{commit}\n^{base}\n".encode(),
        )
        await repository_git.run(self.jail, "index-pack", "--stdin", "--strict", stdin=pack)
        words = ("update-ref", f"refs/heads/{branch}", commit, old or NOWHERE)
        made = await repository_git.attempt(self.jail, *words)
        if made.exit_code == 0:
            return True
        heads = await self.heads()  # what git says is mixed with what a hook of the repository says
        if heads.get(branch) == old and not any(_exclude_each_other(branch, head) for head in heads):
            raise repository_git.failed("update-ref", made)
        return False

    async def _must_not_be_out(self, branch: str) -> None:
        listed = await repository_git.run(self.jail, "worktree", "list", "--porcelain")
        for about in listed.stdout.decode(errors="replace").split("\n\n"):
            lines = about.split("\n")
            if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
                raise Conflict(
                    f"{branch} is checked out, and its files would no longer fit. Switch to another branch "
                    "there, and deliver again."
                )


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    git: Git
    git_dir: Path
    remote: RepoUrl

    async def heads(self) -> dict[str, str]:
        return _heads(await self.git.run("ls-remote", "--heads", "--", self.remote.shown, remote=self.remote))

    async def check(self, commit: str) -> None:
        words = ("push", "--dry-run", "--", self.remote.shown, f"{commit}:refs/heads/{TRIED}")
        await self.git.run(*words, git_dir=self.git_dir, remote=self.remote, timeout_s=CHECK_TIMEOUT_S)

    async def put(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        ref = f"refs/heads/{branch}"
        lease = f"--force-with-lease={ref}:{old or ''}"  # only if it is new, or where we left it
        words = ("push", lease, "--", self.remote.shown, f"{commit}:{ref}")
        try:
            await self.git.run(*words, git_dir=self.git_dir, remote=self.remote, timeout_s=PUSH_TIMEOUT_S)
        except Conflict:
            if (await self.heads()).get(branch) == old:
                raise  # it is refused for another reason
            return False
        return True


def _exclude_each_other(one: str, other: str) -> bool:
    """True when one of two branches would have to be a directory on the way to the other."""
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _heads(listed: bytes) -> dict[str, str]:
    lines = (line.split("\trefs/heads/") for line in listed.decode(errors="replace").splitlines())
    return {line[1]: line[0] for line in lines if len(line) == 2}
