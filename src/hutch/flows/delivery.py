"""What was done in a workspace, put on a branch of the repository that it came from.

The commit is made here, of the snapshot on top of the commit that the workspace
began with, by a git that has never seen the workspace. A repository of this
machine gets it through a jail of its own: its hooks and settings are as little to
be trusted as its code. Where there is a forge, the branch becomes a pull request.
"""

from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass, replace
from typing import Literal

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_change_id
from hutch.flows.branches import Branches, branches_of
from hutch.flows.commit_text import message, one_line, parse_author, plain, slug
from hutch.flows.pull_text import harmless
from hutch.flows.repository_git import OpenJail
from hutch.forge.git import GitFailed
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.forge.seam import Forge, PullRequest, PullRequestWanted, Target
from hutch.snapshots.storage import Snapshot
from hutch.system.clock import wall_ms
from hutch.workspace.prepare.record import Record
from hutch.workspace.workspace import Workspace

BRANCHES = "hutch/"
TRIES = 20
UNCOMMITTED = "Uncommitted work at the start"
BODY_LETTERS = 60_000  # GitHub takes a few more


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
    own_title: bool = False  # the user's, and no model's: it may call people and close issues
    branch: str | None = None
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    describe: Callable[[str], str] = str  # a summary as the text of a pull request


async def propose(
    workspace: Workspace,
    last: Snapshot,
    proposal: Proposal,
    *,
    open_jail: OpenJail,
    start: Snapshot | None = None,
    address: str | RepoUrl = "",
    forge: Forge | None = None,
    before: Change | None = None,
    on_step: OnStep = untold,
) -> Change | None:
    """Commit a snapshot and push it as a new branch; None when it is what was there before.

    The same snapshot and words make the same commit, so what was pushed by somebody who was killed
    right then is found, and not pushed again; so is a pull request. `start` is what the agent began
    with: where it holds more than the commit that the workspace began with, that is a commit of its
    own. `address` is the repository as it was named, with the credentials that no record keeps.
    `before` is a change of the same session that is still open: this goes on top of it.
    """
    record = workspace.record
    if record.commit is None or not record.source:
        raise BadRequest("This workspace came from no repository, so there is nowhere to deliver to.")
    remote = _remote(record.source, address)
    came_with = await _tree(workspace, record.commit)
    known = await _tree(workspace, before.commit) if before else None
    if last.tree == known or (known is None and last.tree in (came_with, start and start.tree)):
        return None
    proposal = _worded(proposal, stays=remote.path is not None)
    going_on = before if known else None
    wanted = going_on.branch if going_on else proposal.branch or BRANCHES + slug(proposal.title)
    target = await forge.target() if forge else Target(remote, "")
    async with branches_of(target.remote, workspace, open_jail) as branches:
        heads = await branches.heads()
        on = going_on if going_on and going_on.branch in heads else None
        brought = start if start and start.tree != came_with else None
        commit = await _made(workspace, last, proposal, on, brought)
        # A branch is named when it is known which one it is: the wanted name may be taken.
        named = on.branch if on else _there(heads, commit, wanted) or _must_be_free(wanted, heads.keys())
        await on_step("branching", f"{'Going on with' if on else 'Creating'} branch {named}...")
        await on_step("committing", "Committing changes...")

        async def pushing(name: str) -> None:
            await on_step("pushing", f"Pushing {name} to {target.remote.shown}...")

        branch = await _pushed(branches, heads, on, commit, record.commit, wanted, pushing)
    await on_step("opening", f"Opening {branch} for review...")
    change = _change(record, proposal, on, branch, commit, "local" if remote.path is not None else "git")
    if on is not None:  # who was asked for a review has not forgotten, and who took a label away meant it
        proposal = replace(proposal, labels=(), reviewers=())
    return change if forge is None else await _opened(forge, change, proposal, target)


def _worded(proposal: Proposal, *, stays: bool) -> Proposal:
    """What is said, as commits can say it; a model's words do nothing by themselves elsewhere."""
    title, summary = one_line(proposal.title), plain(proposal.summary)
    if not stays:
        title, summary = title if proposal.own_title else harmless(title), harmless(summary)
    return replace(proposal, title=title, summary=summary)


async def _pushed(
    branches: Branches,
    heads: dict[str, str],
    on: Change | None,
    commit: str,
    base: str,
    wanted: str,
    pushing: Callable[[str], Awaitable[None]],
) -> str:
    """The branch that a commit is on now: that of a change which goes on, or one of its own."""
    if on is None:
        return await _put(branches, heads, commit, base, wanted, pushing)
    await pushing(on.branch)
    await _go_on(branches, heads, on, commit)
    return on.branch


def _change(
    record: Record,
    proposal: Proposal,
    on: Change | None,
    branch: str,
    commit: str,
    forge: Literal["local", "git"],
) -> Change:
    """What was pushed, as it is kept; one that goes on stays the same change."""
    assert record.commit is not None
    return Change(
        id=on.id if on else new_change_id(),
        session_id=proposal.session_id,
        run_id=proposal.run_id,
        repository=record.source,
        branch=branch,
        base=on.base if on else record.branch or "HEAD",
        base_commit=record.commit,
        commit=commit,
        title=on.title if on else proposal.title,
        body=f"{on.body}\n\n{proposal.summary}".strip()[:BODY_LETTERS] if on else proposal.summary,
        tests=proposal.tests,
        created_ms=on.created_ms if on else wall_ms(),
        forge=forge,
    )


async def _opened(forge: Forge, change: Change, proposal: Proposal, target: Target) -> Change:
    if change.base == "HEAD":  # the work began at a commit
        change = replace(change, base=target.default)
    pull: PullRequest = await forge.open(
        PullRequestWanted(
            branch=change.branch,
            head_owner=target.owner,
            base=change.base,
            commit=change.commit,
            title=change.title,
            body=proposal.describe(change.body)[:BODY_LETTERS],
            draft=proposal.draft,
            labels=proposal.labels,
            reviewers=proposal.reviewers,
        )
    )
    body = "\n\n".join([change.body, *pull.notes]).strip()
    return replace(
        change,
        forge="github",
        number=pull.number,
        web_url=pull.url,
        state=pull.state,
        body=body[:BODY_LETTERS],
    )


def _remote(source: str, address: str | RepoUrl) -> RepoUrl:
    """The repository as it was named, if that is the one."""
    remote = parse_repo_url(source)
    named = parse_repo_url(address) if isinstance(address, str) and address else address
    fits = isinstance(named, RepoUrl) and remote.path is None and named.shown == remote.shown
    return named if fits and isinstance(named, RepoUrl) else remote


async def _tree(workspace: Workspace, commit: str) -> str | None:
    """What a commit holds; None when it is not here any more."""
    words = ("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
    try:
        printed = await workspace.git.run(*words, git_dir=workspace.snapshots.storage.git_dir)
    except GitFailed:
        return None
    return printed.decode().strip()


async def _made(
    workspace: Workspace, last: Snapshot, proposal: Proposal, on: Change | None, brought: Snapshot | None
) -> str:
    """The commit of a snapshot, on top of all that it comes after."""
    assert workspace.record.commit is not None
    below = on.commit if on else workspace.record.commit
    if brought is not None and on is None:
        below = await _commit(workspace, brought, below, replace(proposal, title=UNCOMMITTED, summary=""))
    return await _commit(workspace, last, below, proposal)


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


async def _go_on(branches: Branches, heads: Mapping[str, str], on: Change, commit: str) -> None:
    """Move the branch of a change forward, unless somebody else has."""
    if heads[on.branch] == commit:
        return
    if heads[on.branch] != on.commit or not await branches.put(commit, on.commit, on.branch, on.commit):
        raise Conflict(
            f"Somebody has pushed to {on.branch} since Hutch did, and going on would undo that. Merge or "
            "close it and deliver again, or begin a session on that branch."
        )


async def _put(
    branches: Branches,
    heads: dict[str, str],
    commit: str,
    base: str,
    wanted: str,
    pushing: Callable[[str], Awaitable[None]],
) -> str:
    """Have a commit on a branch under the first name that is free; one that is there keeps its name."""
    if there := _there(heads, commit, wanted):
        await pushing(there)
        return there
    while True:
        branch = _must_be_free(wanted, heads.keys())
        await pushing(branch)
        if await branches.put(commit, base, branch, None):
            return branch
        heads[branch] = ""  # somebody was faster


def _there(taken: Mapping[str, str], commit: str, wanted: str) -> str | None:
    """The branch that is at a commit already, the one with the wanted name before others."""
    return min(
        (name for name in taken if taken[name] == commit), key=lambda name: name != wanted, default=None
    )


def _must_be_free(wanted: str, taken: Set[str]) -> str:
    if branch := _free(wanted, taken):
        return branch
    raise Conflict(f"There are {TRIES} branches named as '{wanted}' already. Delete some of them.")


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
