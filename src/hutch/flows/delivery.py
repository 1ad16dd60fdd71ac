"""What was done in a workspace, put on a branch of the repository that it came from.

The commit is made here, of the snapshot on top of the commit that the workspace
began with, by a git that has never seen the workspace. A repository of this
machine gets it through a jail of its own: its hooks and settings are as little to
be trusted as its code.
"""

import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, Unavailable
from hutch.domain.ids import new_change_id
from hutch.forge.git import Git
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.jail.seam import Finished, Jail
from hutch.workspace.workspace import Workspace

OpenJail = Callable[[Path], AbstractAsyncContextManager[Jail]]  # on a repository of this machine
BRANCHES = "hutch/"
TRIES = 20
SETTINGS = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")


@dataclass(frozen=True, slots=True)
class Proposal:
    """What is to be said about a change."""

    session_id: str
    run_id: str
    title: str
    summary: str
    tests: str
    author: str  # Name <address>
    branch: str | None = None

    @property
    def message(self) -> str:
        body = f"\n\n{self.summary.strip()}" if self.summary.strip() else ""
        return f"{self.title}{body}\n\nHutch-Session: {self.session_id}\nHutch-Run: {self.run_id}\n"


async def propose(workspace: Workspace, tree: str, proposal: Proposal, *, open_jail: OpenJail) -> Change:
    """Commit a snapshot's tree and push it as a new branch."""
    record = workspace.record
    if record.commit is None or not record.source:
        raise BadRequest("This workspace came from no repository, so there is nowhere to deliver to.")
    remote = parse_repo_url(record.source)
    commit = await _commit(workspace, tree, record.commit, proposal)
    wanted = proposal.branch or BRANCHES + slug(proposal.title)
    if remote.path is not None:
        pack = await _pack(workspace.git, workspace.snapshots.storage.git_dir, commit, record.commit)
        async with open_jail(remote.path) as jail:
            branch = await _receive(jail, pack, commit, wanted)
    else:
        branch = await _push(workspace.git, workspace.snapshots.storage.git_dir, commit, wanted, remote)
    return Change(
        id=new_change_id(),
        session_id=proposal.session_id,
        run_id=proposal.run_id,
        repository=record.source,
        branch=branch,
        base=record.branch or "HEAD",
        base_commit=record.commit,
        commit=commit,
        title=proposal.title,
        body=proposal.summary,
        tests=proposal.tests,
        created_ms=time.time_ns() // 1_000_000,
    )


def slug(title: str) -> str:
    """A title as part of a branch's name."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")[:50].strip("-") or "change"


async def _commit(workspace: Workspace, tree: str, parent: str, proposal: Proposal) -> str:
    found = re.fullmatch(r"\s*([^<>\n]+?)\s*<([^<>\s]+)>\s*", proposal.author)
    if not found:
        raise BadRequest(f"'{proposal.author}' is no author. Write it as: Name <address>.")
    printed = await workspace.git.run(
        *("commit-tree", tree, "-p", parent, "-F", "-"),
        git_dir=workspace.snapshots.storage.git_dir,
        settings={"user.name": found[1], "user.email": found[2], "i18n.commitEncoding": "UTF-8"},
        stdin=proposal.message.encode(errors="replace"),
    )
    return printed.decode().strip()


async def _pack(git: Git, git_dir: Path, commit: str, base: str) -> bytes:
    return await git.run(
        *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
        git_dir=git_dir,
        stdin=f"{commit}\n^{base}\n".encode(),
    )


async def _receive(jail: Jail, pack: bytes, commit: str, wanted: str) -> str:
    """Put a commit into the repository that a jail is on, under the first name that is free."""
    await _git(jail, "index-pack", "--stdin", "--strict", stdin=pack)
    for branch in _names(wanted):
        made = await jail.run(
            ["git", *SETTINGS, "update-ref", f"refs/heads/{branch}", commit, "0" * 40], timeout_s=60
        )
        if made.exit_code == 0:
            return branch
        if b"already exists" not in made.stderr and b"reference already" not in made.stderr:
            raise _failed("update-ref", made)
    raise Conflict(f"There are {TRIES} branches named as '{wanted}' already. Delete some of them.")


async def _push(git: Git, git_dir: Path, commit: str, wanted: str, remote: RepoUrl) -> str:
    listed = await git.run("ls-remote", "--heads", "--", remote.shown, f"refs/heads/{wanted}*", remote=remote)
    taken = {
        line.split("\trefs/heads/")[1]
        for line in listed.decode(errors="replace").splitlines()
        if "\t" in line
    }
    branch = next((name for name in _names(wanted) if name not in taken), None)
    if branch is None:
        raise Conflict(f"There are {TRIES} branches named as '{wanted}' already. Delete some of them.")
    await git.run("push", "--", remote.shown, f"{commit}:refs/heads/{branch}", git_dir=git_dir, remote=remote)
    return branch


def _names(wanted: str) -> list[str]:
    return [wanted, *(f"{wanted}-{number}" for number in range(2, TRIES + 1))]


@asynccontextmanager
async def reviewing(change: Change, open_jail: OpenJail) -> AsyncIterator[Jail]:
    """A jail on the repository of a change, which must be of this machine."""
    path = parse_repo_url(change.repository).path
    if path is None:
        raise BadRequest(f"{change.repository} is not on this machine. Review and merge the branch there.")
    async with open_jail(path) as jail:
        yield jail


async def diff(change: Change, open_jail: OpenJail) -> bytes:
    """The change as a patch."""
    words = ("diff", "--no-ext-diff", "--no-textconv", "--find-renames", change.base_commit, change.commit)
    async with reviewing(change, open_jail) as jail:
        return (await _git(jail, *words)).stdout


async def merge(change: Change, open_jail: OpenJail, *, squash: bool, author: str) -> str:
    """Bring a change into its base branch; the commit that this is at afterwards."""
    async with reviewing(change, open_jail) as jail:
        tip = await _tip(jail, change.base)
        bare = (await _git(jail, "rev-parse", "--is-bare-repository")).stdout.strip() == b"true"
        head = (await jail.run(["git", "symbolic-ref", "--short", "HEAD"])).stdout.decode().strip()
        made = await _merged(jail, change, tip, squash=squash, author=author)
        if bare or head != change.base:
            await _git(jail, "update-ref", f"refs/heads/{change.base}", made, tip)
        else:  # people see it in their files too, unless it would run over what they have changed
            await _git(jail, "merge", "--ff-only", "--quiet", made)
    return made


async def delete_branch(change: Change, open_jail: OpenJail) -> None:
    async with reviewing(change, open_jail) as jail:
        await _git(jail, "update-ref", "-d", f"refs/heads/{change.branch}", change.commit)


async def _merged(jail: Jail, change: Change, tip: str, *, squash: bool, author: str) -> str:
    ancestor = await jail.run(["git", "merge-base", "--is-ancestor", tip, change.commit])
    if ancestor.exit_code == 0 and not squash:
        return change.commit
    merged = await jail.run(
        ["git", *SETTINGS, "merge-tree", "--write-tree", "--name-only", "--no-messages", tip, change.commit]
    )
    lines = merged.stdout.decode(errors="replace").split("\n")
    if merged.exit_code == 1:
        conflicts = ", ".join(line for line in lines[1:] if line.strip())
        raise Conflict(
            f"{change.branch} and {change.base} have both changed {conflicts}. Merge by hand, or run the "
            f"task again on {change.base} as it is now."
        )
    if merged.exit_code != 0:
        raise _failed("merge-tree", merged)
    name, address = author.removesuffix(">").split(" <")
    who = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": address}
    who |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": address}
    parents = ["-p", tip] if squash else ["-p", tip, "-p", change.commit]
    message = change.title if squash else f"Merge {change.branch}: {change.title}"
    made = await jail.run(
        ["git", *SETTINGS, "commit-tree", lines[0].strip(), *parents, "-F", "-"],
        stdin=f"{message}\n\n{change.body}".encode(errors="replace"),
        env=who,
    )
    if made.exit_code != 0:
        raise _failed("commit-tree", made)
    return made.stdout.decode().strip()


async def _tip(jail: Jail, branch: str) -> str:
    found = await _git(jail, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}^{{commit}}")
    return found.stdout.decode().strip()


async def _git(jail: Jail, *words: str, stdin: bytes | None = None) -> Finished:
    limits = replace(jail.policy.limits, output_bytes=16 * 1024 * 1024)
    ran = await jail.run(["git", *SETTINGS, *words], stdin=stdin, timeout_s=300, limits=limits)
    if ran.exit_code != 0:
        raise _failed(words[0], ran)
    return ran


def _failed(command: str, ran: Finished) -> Unavailable:
    said = ran.stderr.decode(errors="replace").strip()[-1000:]
    return Unavailable(f"git {command} failed in the repository: {said or f'exit code {ran.exit_code}'}")
