"""What was done in a workspace, put on a branch of the repository that it came from.

The commit is made here, of the snapshot on top of the commit that the workspace
began with, by a git that has never seen the workspace. A repository of this
machine gets it through a jail of its own: its hooks and settings are as little to
be trusted as its code.
"""

import time
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_change_id
from hutch.flows import repository_git
from hutch.flows.commit_text import message, one_line, parse_author, plain, slug
from hutch.flows.repository_git import OpenJail
from hutch.forge.git import Git
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.jail.seam import Jail
from hutch.workspace.snapshots.storage import Snapshot
from hutch.workspace.workspace import Workspace

BRANCHES = "hutch/"
TRIES = 20
NOWHERE = "0" * 40
UNCOMMITTED = "Uncommitted work at the start"


OnStep = Callable[[Literal["branching", "committing", "pushing", "opening"], str], Awaitable[None]]


async def untold(step: str, message: str) -> None:
    """Nobody wants to know."""


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


async def propose(
    workspace: Workspace,
    last: Snapshot,
    proposal: Proposal,
    *,
    open_jail: OpenJail,
    start: Snapshot | None = None,
    address: str = "",
    on_step: OnStep = untold,
) -> Change | None:
    """Commit a snapshot and push it as a new branch; None when it is what was there before.

    The same snapshot and words make the same commit, so what was pushed by somebody who was killed
    right then is found, and not pushed again. `start` is what the agent began with: where it holds
    more than the commit that the workspace began with, that is a commit of its own. `address` is the
    repository as it was named, with the credentials that no record keeps.
    """
    record = workspace.record
    if record.commit is None or not record.source:
        raise BadRequest("This workspace came from no repository, so there is nowhere to deliver to.")
    remote = parse_repo_url(record.source)
    if remote.path is None and address and parse_repo_url(address).shown == remote.shown:
        remote = parse_repo_url(address)
    git_dir = workspace.snapshots.storage.git_dir
    began = await workspace.git.run("rev-parse", "--verify", f"{record.commit}^{{tree}}", git_dir=git_dir)
    came_with = began.decode().strip()
    if last.tree in (came_with, start and start.tree):
        return None
    proposal = replace(proposal, title=one_line(proposal.title), summary=plain(proposal.summary))
    wanted = proposal.branch or BRANCHES + slug(proposal.title)
    await on_step("branching", f"Creating branch {wanted}...")
    await on_step("committing", "Committing changes...")
    below = record.commit
    if start is not None and start.tree != came_with:
        below = await _commit(workspace, start, below, replace(proposal, title=UNCOMMITTED, summary=""))
    commit = await _commit(workspace, last, below, proposal)
    await on_step("pushing", f"Pushing to {remote.shown}...")
    if remote.path is not None:
        pack = await _pack(workspace.git, git_dir, commit, record.commit)
        async with open_jail(remote.path) as jail:
            branch = await _receive(jail, pack, commit, wanted)
    else:
        branch = await _push(workspace.git, git_dir, commit, wanted, remote)
    await on_step("opening", f"Opening {branch} for review...")
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


async def _commit(workspace: Workspace, snapshot: Snapshot, parent: str, proposal: Proposal) -> str:
    """A commit of a snapshot, as of when that was taken: written by hand, so that no clock is in it."""
    name, address = parse_author(proposal.author)
    by = f"{name} <{address}> {int(snapshot.taken_at.timestamp())} +0000"
    said = message(proposal.title, proposal.summary, proposal.session_id, proposal.run_id)
    text = f"tree {snapshot.tree}\nparent {parent}\nauthor {by}\ncommitter {by}\n\n{said}"
    printed = await workspace.git.run(
        *("hash-object", "-t", "commit", "-w", "--stdin"),
        git_dir=workspace.snapshots.storage.git_dir,
        stdin=text.encode(errors="replace"),
    )
    return printed.decode().strip()


async def _pack(git: Git, git_dir: Path, commit: str, base: str) -> bytes:
    return await git.run(
        *("pack-objects", "--revs", "--stdout", "-q", "--delta-base-offset"),
        git_dir=git_dir,
        stdin=f"{commit}\n^{base}\n".encode(),
    )


async def _receive(jail: Jail, pack: bytes, commit: str, wanted: str) -> str:
    """Put a commit into the repository that a jail is on, under the first name that is free; one that is
    there already keeps its name."""
    await repository_git.run(jail, "index-pack", "--stdin", "--strict", stdin=pack)
    listed = await repository_git.run(
        jail, "for-each-ref", "--format=%(objectname)\t%(refname)", "refs/heads/"
    )
    taken = _heads(listed.stdout)
    if there := _there(taken, commit, wanted):
        return there
    while branch := _free(wanted, taken.keys()):
        made = await repository_git.attempt(jail, "update-ref", f"refs/heads/{branch}", commit, NOWHERE)
        if made.exit_code == 0:
            return branch
        if b"already exists" not in made.stderr and b"cannot create" not in made.stderr:
            raise repository_git.failed("update-ref", made)
        taken[branch] = ""  # somebody was faster
    raise _too_many(wanted)


async def _push(git: Git, git_dir: Path, commit: str, wanted: str, remote: RepoUrl) -> str:
    listed = await git.run("ls-remote", "--heads", "--", remote.shown, remote=remote)
    taken = _heads(listed)
    if there := _there(taken, commit, wanted):
        return there
    branch = _free(wanted, taken.keys())
    if branch is None:
        raise _too_many(wanted)
    ref = f"refs/heads/{branch}"
    words = ("push", f"--force-with-lease={ref}:", "--", remote.shown, f"{commit}:{ref}")  # only if it is new
    await git.run(*words, git_dir=git_dir, remote=remote)
    return branch


def _heads(listed: bytes) -> dict[str, str]:
    """Branches, and the commits that they are at."""
    lines = (line.split("\trefs/heads/") for line in listed.decode(errors="replace").splitlines())
    return {line[1]: line[0] for line in lines if len(line) == 2}


def _there(taken: Mapping[str, str], commit: str, wanted: str) -> str | None:
    """The branch that is at a commit already, the one with the wanted name before others."""
    return min(
        (name for name in taken if taken[name] == commit), key=lambda name: name != wanted, default=None
    )


def _free(wanted: str, taken: Set[str]) -> str | None:
    """A name that no branch has; nor may one be a directory on the way to another."""
    above = {branch[:place] for branch in taken for place, letter in enumerate(branch) if letter == "/"}
    for name in (wanted, wanted.replace("/", "-")):
        parents = {name[:place] for place, letter in enumerate(name) if letter == "/"}
        if parents & taken:
            continue
        for number in range(1, TRIES + 1):
            branch = name if number == 1 else f"{name}-{number}"
            if branch not in taken and branch not in above:
                return branch
    return None


def _too_many(wanted: str) -> Conflict:
    return Conflict(f"There are {TRIES} branches named as '{wanted}' already. Delete some of them.")
