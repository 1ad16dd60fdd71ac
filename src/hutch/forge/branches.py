"""Branches of a repository: on another machine, or on this one through a jail. Work is pushed once."""

from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Protocol

from hutch.domain.errors import Conflict
from hutch.forge import jailed_git
from hutch.forge.interface import Commits, Draft, OnStep, Work
from hutch.forge.jailed_git import RunGit
from hutch.forge.repo_url import RepoUrl

NULL_COMMIT = "0" * 40
PUSH_TIMEOUT_S = 1800.0
CHECK_TIMEOUT_S = 30.0
PROBE_BRANCH = "hutch/may-it-be-pushed"  # never made
MAX_NAMES = 20


class Branches(Protocol):
    """The branches of one repository."""

    async def heads(self) -> dict[str, str]:
        """Branches, and the commits that they are at."""
        ...

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        """Put a branch at a commit, with all that is new since `base`. It must be at `old` before, or not
        exist with None; False when it is not so."""
        ...


@dataclass(frozen=True, slots=True)
class LocalBranches:
    """Those of a repository of this machine."""

    commits: Commits
    git: RunGit

    async def heads(self) -> dict[str, str]:
        words = ("for-each-ref", "--format=%(objectname)\t%(refname)", "refs/heads/")
        return _parse_heads((await jailed_git.run(self.git, *words)).stdout)

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        if old is not None:
            await self._check_not_checked_out(branch)
        pack = await self.commits.git.run(
            *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
            git_dir=self.commits.git_dir,
            stdin=f"{commit}\n^{base}\n".encode(),
        )
        await jailed_git.run(self.git, "index-pack", "--stdin", "--strict", stdin=pack)
        words = ("update-ref", f"refs/heads/{branch}", commit, old or NULL_COMMIT)
        made = await jailed_git.run_unchecked(self.git, *words)
        if made.exit_code == 0:
            return True
        heads = await self.heads()  # git's own message is mixed with that of a hook of the repository
        if heads.get(branch) == old and not any(_exclude_each_other(branch, head) for head in heads):
            raise jailed_git.to_error("update-ref", made)
        return False

    async def _check_not_checked_out(self, branch: str) -> None:
        listed = await jailed_git.run(self.git, "worktree", "list", "--porcelain")
        for about in listed.stdout.decode(errors="replace").split("\n\n"):
            lines = about.split("\n")
            if f"branch refs/heads/{branch}" in lines and "bare" not in lines:
                raise Conflict(
                    f"{branch} is checked out, and its files would no longer fit. Switch to another branch "
                    "there, and deliver again."
                )


@dataclass(frozen=True, slots=True)
class RemoteBranches:
    """Those of a repository elsewhere, by `git push`."""

    commits: Commits
    remote: RepoUrl

    async def heads(self) -> dict[str, str]:
        words = ("ls-remote", "--heads", "--", self.remote.address)
        return _parse_heads(await self.commits.git.run(*words, remote=self.remote))

    async def check(self, commit: str) -> None:
        """Refuse a repository that takes no push; nothing is pushed."""
        words = ("push", "--dry-run", "--", self.remote.address, f"{commit}:refs/heads/{PROBE_BRANCH}")
        await self._run(*words, timeout_s=CHECK_TIMEOUT_S)

    async def update(self, commit: str, base: str, branch: str, old: str | None) -> bool:
        ref = f"refs/heads/{branch}"
        lease = f"--force-with-lease={ref}:{old or ''}"  # only if it is new, or where we left it
        try:
            await self._run(
                "push", lease, "--", self.remote.address, f"{commit}:{ref}", timeout_s=PUSH_TIMEOUT_S
            )
        except Conflict:
            if (await self.heads()).get(branch) == old:
                raise  # it is refused for another reason
            return False
        return True

    async def _run(self, *words: str, timeout_s: float) -> None:
        await self.commits.git.run(
            *words, git_dir=self.commits.git_dir, remote=self.remote, timeout_s=timeout_s
        )


@dataclass(frozen=True, slots=True)
class Pushed:
    """Work that is on a branch."""

    branch: str
    draft: Draft
    continues: bool


async def push(branches: Branches, work: Work, place: str, on_step: OnStep) -> Pushed:
    """Have the work on a branch: that of the change it continues, or one of its own under a free name."""
    heads = await branches.heads()
    before, draft = work.before, work.next
    if before is not None and draft is not None and before.branch in heads:
        await _announce(on_step, f"Going on with branch {before.branch}...")
        await on_step("pushing", f"Pushing {before.branch} to {place}...")
        if heads[before.branch] != draft.commit:
            is_ours = heads[before.branch] == before.commit
            if not is_ours or not await branches.update(
                draft.commit, before.commit, before.branch, before.commit
            ):
                raise Conflict(
                    f"Somebody has pushed to {before.branch} since Hutch did, and going on would undo that. "
                    "Merge or close it and deliver again, or begin a session on that branch."
                )
        return Pushed(before.branch, draft, True)
    commit = work.new.commit
    # A branch is announced when its name is known: the wanted one may be taken.
    there = _find(heads, commit, work.branch)
    branch = there or _find_free(work.branch, heads.keys())
    await _announce(on_step, f"Creating branch {branch}...")
    while True:
        await on_step("pushing", f"Pushing {branch} to {place}...")
        if there or await branches.update(commit, work.base_commit, branch, None):
            return Pushed(branch, work.new, False)
        heads[branch] = ""  # somebody else was faster
        branch = _find_free(work.branch, heads.keys())


async def _announce(on_step: OnStep, message: str) -> None:
    await on_step("branching", message)
    await on_step("committing", "Committing changes...")


def _find(heads: Mapping[str, str], commit: str, name: str) -> str | None:
    """The branch that is at a commit already, the one of this name before others."""
    return min((each for each in heads if heads[each] == commit), key=lambda each: each != name, default=None)


def _find_free(wanted: str, taken: Set[str]) -> str:
    """A name that no branch has; nor may one be a directory above another."""
    above = {branch[:place] for branch in taken for place, sign in enumerate(branch) if sign == "/"}
    for name in (wanted, wanted.replace("/", "-")):
        parents = {name[:place] for place, sign in enumerate(name) if sign == "/"}
        if parents & taken:
            continue
        for number in range(1, MAX_NAMES + 1):
            branch = name if number == 1 else f"{name}-{number}"
            if branch not in taken and branch not in above:
                return branch
    raise Conflict(f"There are {MAX_NAMES} branches named as '{wanted}' already. Delete some of them.")


def _exclude_each_other(one: str, other: str) -> bool:
    """True when one of two branches would have to be a directory above the other."""
    return one.startswith(f"{other}/") or other.startswith(f"{one}/")


def _parse_heads(listed: bytes) -> dict[str, str]:
    lines = (line.split("\trefs/heads/") for line in listed.decode(errors="replace").splitlines())
    return {line[1]: line[0] for line in lines if len(line) == 2}
