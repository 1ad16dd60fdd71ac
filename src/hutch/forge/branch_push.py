"""Pushes work to a branch of a repository, on another machine or, through a jail, on this one.

Pushing the same work again changes nothing.
"""

from collections.abc import Mapping, Set
from typing import Protocol

from hutch.domain.errors import Conflict
from hutch.forge import local_repository_jailed_git
from hutch.forge.interface import Commits, Draft, OnStep, Work
from hutch.forge.local_repository_jailed_git import RunGit
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

NULL_COMMIT = "0" * 40
PUSH_TIMEOUT_S = 1800.0
CHECK_TIMEOUT_S = 30.0
PROBE_BRANCH = "hutch/may-it-be-pushed"  # never created
MAX_NAMES = 20


class Branches(Protocol):
    """The branches of one repository."""

    async def heads(self) -> dict[str, str]:
        """The commit of each branch."""
        ...

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        """Set a branch to a commit, with all objects that are new since `base`.

        Returns False unless the branch was at `old`, or did not exist if `old` is None.
        """
        ...


@dataclass(frozen=True, slots=True)
class LocalBranches:
    """The branches of a repository on this machine."""

    commits: Commits
    git: RunGit

    async def heads(self) -> dict[str, str]:
        words = ("for-each-ref", "--format=%(objectname)\t%(refname)", "refs/heads/")
        return _parse_heads((await local_repository_jailed_git.run(self.git, *words)).stdout)

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        if old is not None:
            await self._check_not_checked_out(branch)
        pack = await self.commits.git.run(
            *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
            git_dir=self.commits.git_dir,
            stdin=f"{commit}\n^{base}\n".encode(),
        )
        await local_repository_jailed_git.run(self.git, "index-pack", "--stdin", "--strict", stdin=pack)
        words = ("update-ref", f"refs/heads/{branch}", commit, old or NULL_COMMIT)
        made = await local_repository_jailed_git.run_unchecked(self.git, *words)
        if made.exit_code == 0:
            return True
        heads = await self.heads()  # git's message is mixed with the output of the repository's hooks
        if heads.get(branch) == old and not any(_exclude_each_other(branch, head) for head in heads):
            raise local_repository_jailed_git.to_error("update-ref", made)
        return False

    async def _check_not_checked_out(self, branch: str) -> None:
        listed = await local_repository_jailed_git.run(self.git, "worktree", "list", "--porcelain")
        for about in listed.stdout.decode(errors="replace").split("\n\n"):
            lines = about.split("\n")
            if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
                raise Conflict(
                    f"{branch} is checked out, so its files would no longer match. Switch to another branch "
                    "there and deliver again."
                )


@dataclass(frozen=True, slots=True)
class RemoteBranches:
    """The branches of a repository on another machine, by `git push`."""

    commits: Commits
    remote: RepoUrl

    async def heads(self) -> dict[str, str]:
        words = ("ls-remote", "--heads", "--", self.remote.address)
        return _parse_heads(await self.commits.git.run(*words, remote=self.remote))

    async def check(self, commit: str) -> None:
        """Raise an error if the repository does not accept a push. Pushes nothing."""
        words = ("push", "--dry-run", "--", self.remote.address, f"{commit}:refs/heads/{PROBE_BRANCH}")
        await self._run(*words, timeout_s=CHECK_TIMEOUT_S)

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        ref = f"refs/heads/{branch}"
        lease = f"--force-with-lease={ref}:{old or ''}"  # only if the branch is new or unchanged
        try:
            await self._run(
                "push", lease, "--", self.remote.address, f"{commit}:{ref}", timeout_s=PUSH_TIMEOUT_S
            )
        except Conflict:
            if (await self.heads()).get(branch) == old:
                raise  # refused for another reason
            return False
        return True

    async def _run(self, *words: str, timeout_s: float) -> None:
        await self.commits.git.run(
            *words, git_dir=self.commits.git_dir, remote=self.remote, timeout_s=timeout_s
        )


@dataclass(frozen=True, slots=True)
class Pushed:
    """Work that was pushed to a branch."""

    branch: str
    draft: Draft
    continues: bool


async def push(branches: Branches, work: Work, remote: str, on_step: OnStep) -> Pushed:
    """Push work to the branch of the change that it continues, or to a new branch with a free name."""
    heads = await branches.heads()
    before, draft = work.before, work.next
    if before is not None and draft is not None and before.branch in heads:
        await _announce(on_step, f"Continuing on branch {before.branch}...")
        await on_step("pushing", f"Pushing {before.branch} to {remote}...")
        if heads[before.branch] != draft.commit:
            is_ours = heads[before.branch] == before.commit
            if not is_ours or not await branches.update(
                draft.commit, before.commit, before.branch, before.commit
            ):
                raise Conflict(
                    f"{before.branch} has new commits that Hutch did not push, and delivering would undo "
                    "them. Merge or close it and deliver again, or start a session on that branch."
                )
        return Pushed(before.branch, draft, True)
    commit = work.new.commit
    # Announced only now: the preferred name may be taken.
    there = _find(heads, commit, work.branch)
    branch = there or _find_free(work.branch, heads.keys())
    await _announce(on_step, f"Creating branch {branch}...")
    while True:
        await on_step("pushing", f"Pushing {branch} to {remote}...")
        if there or await branches.update(commit, work.base_commit, branch, None):
            return Pushed(branch, work.new, False)
        heads[branch] = ""  # another process took the name first
        branch = _find_free(work.branch, heads.keys())


async def _announce(on_step: OnStep, message: str) -> None:
    await on_step("branching", message)
    await on_step("committing", "Committing changes...")


def _find(heads: Mapping[str, str], commit: str, name: str) -> str | None:
    """A branch that is at a commit, preferably the one with this name."""
    return min((each for each in heads if heads[each] == commit), key=lambda each: each != name, default=None)


def _find_free(preferred: str, taken: Set[str]) -> str:
    """A free branch name. A branch cannot be named like a directory of another branch."""
    above = {branch[:place] for branch in taken for place, sign in enumerate(branch) if sign == "/"}
    for name in (preferred, preferred.replace("/", "-")):
        parents = {name[:place] for place, sign in enumerate(name) if sign == "/"}
        if parents & taken:
            continue
        for number in range(1, MAX_NAMES + 1):
            branch = name if number == 1 else f"{name}-{number}"
            if branch not in taken and branch not in above:
                return branch
    raise Conflict(f"There are already {MAX_NAMES} branches named like '{preferred}'. Delete some of them.")


def _exclude_each_other(one: str, other: str) -> bool:
    """True if one branch name is a directory of the other."""
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _parse_heads(listed: bytes) -> dict[str, str]:
    lines = (line.split("\trefs/heads/") for line in listed.decode(errors="replace").splitlines())
    return {line[1]: line[0] for line in lines if len(line) == 2}
