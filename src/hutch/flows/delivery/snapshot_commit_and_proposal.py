"""A snapshot of a workspace as a commit, proposed to the repository that the workspace came from.

The commit is made here, of the snapshot on top of the commit that the workspace began with, by a git that
has never seen the workspace.
"""

from collections.abc import Callable
from dataclasses import replace

from hutch.domain.commit_text import commit_message, one_line, parse_author, slug, strip_controls
from hutch.domain.errors import BadRequest
from hutch.domain.ids import new_change_id
from hutch.domain.proposed_change import Change
from hutch.forge.host_git import GitFailed
from hutch.forge.interface import Commits, Draft, Forge, OnStep, ProposedChange, Work, ignore_step
from hutch.forge.posted_text_escaping import MAX_CHARS, escape_references
from hutch.snapshots.git_storage import Snapshot
from hutch.system.clock_without_jumps import wall_ms
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

BRANCHES = "hutch/"
UNCOMMITTED = "Uncommitted work at the start"


@dataclass(frozen=True, slots=True)
class Proposal:
    """The description of a change."""

    session_id: str
    run_id: str
    title: str
    summary: str
    tests: str
    author: str  # Name <address>
    own_title: bool = False  # from the user, not from a model: it may mention people and close issues
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
    forge: Forge,
    start: Snapshot | None = None,
    before: Change | None = None,
    on_step: OnStep = ignore_step,
) -> Change | None:
    """Commit a snapshot and propose it; None when nothing has changed.

    The same snapshot and texts give the same commit, so work that a killed process has pushed is found, and
    not pushed again. `start` is the snapshot before the agent's work: uncommitted work in it becomes a commit
    of its own. `before` is an open change of the same session, which the new commit extends.
    """
    record = workspace.record
    if record.commit is None or not record.source:
        raise BadRequest("This workspace does not come from a repository, so there is nowhere to deliver to.")
    came_with = await _tree(workspace, record.commit)
    known = await _tree(workspace, before.commit) if before else None
    if last.tree == known or (known is None and last.tree in (came_with, start and start.tree)):
        return None
    proposal = _worded(proposal, forge)
    going_on = before if known else None
    brought = start if start and start.tree != came_with else None
    proposed = await forge.propose(
        Work(
            commits=Commits(workspace.git, workspace.snapshots.storage.git_dir),
            base_commit=record.commit,
            branch=going_on.branch if going_on else proposal.branch or BRANCHES + slug(proposal.title),
            new=await _draft_new(workspace, last, proposal, brought),
            before=going_on,
            next=await _draft_next(workspace, last, proposal, going_on) if going_on else None,
            is_draft=proposal.draft,
            describe=proposal.describe,
        ),
        on_step,
    )
    return _change(workspace, proposal, forge, proposed, going_on)


def _worded(proposal: Proposal, forge: Forge) -> Proposal:
    """The description in a form for commits; a model's text must have no effect at a forge."""
    title, summary = one_line(proposal.title), strip_controls(proposal.summary)
    if forge.acts_on_text:
        title, summary = title if proposal.own_title else escape_references(title), escape_references(summary)
    return replace(proposal, title=title, summary=summary)


async def _draft_new(
    workspace: Workspace, last: Snapshot, proposal: Proposal, brought: Snapshot | None
) -> Draft:
    """The work on top of the workspace's first commit and of the uncommitted work at its start."""
    below = workspace.record.commit
    assert below is not None
    if brought is not None:
        below = await _commit(workspace, brought, below, replace(proposal, title=UNCOMMITTED, summary=""))
    return Draft(
        commit=await _commit(workspace, last, below, proposal),
        base=workspace.record.branch or "HEAD",
        title=proposal.title,
        body=proposal.summary,
        labels=proposal.labels,
        reviewers=proposal.reviewers,
    )


async def _draft_next(workspace: Workspace, last: Snapshot, proposal: Proposal, before: Change) -> Draft:
    """The work on top of a change. Its labels and reviewers stay as users have set them since."""
    return Draft(
        commit=await _commit(workspace, last, before.commit, proposal),
        base=before.base,
        title=before.title,
        body=f"{before.body}\n\n{proposal.summary}".strip()[:MAX_CHARS],
    )


def _change(
    workspace: Workspace, proposal: Proposal, forge: Forge, proposed: ProposedChange, before: Change | None
) -> Change:
    """The change as it is stored; a continued change keeps its id."""
    record, draft = workspace.record, proposed.draft
    assert record.commit is not None
    on = before if proposed.continues else None
    body = draft.body
    if proposed.number:
        body = "\n\n".join([body, *proposed.notes]).strip()[:MAX_CHARS]
    return Change(
        id=on.id if on else new_change_id(),
        session_id=proposal.session_id,
        run_id=proposal.run_id,
        repository=record.source or "",
        branch=proposed.branch,
        base=draft.base,
        base_commit=record.commit,
        commit=draft.commit,
        title=draft.title,
        body=body,
        tests=proposal.tests,
        created_ms=on.created_ms if on else wall_ms(),
        forge=forge.name,
        number=proposed.number,
        web_url=proposed.url,
        state=proposed.state,
    )


async def _tree(workspace: Workspace, commit: str) -> str | None:
    """The tree of a commit; None when the commit no longer exists here."""
    words = ("rev-parse", "--verify", "--quiet", f"{commit}^{{tree}}")
    try:
        printed = await workspace.git.run(*words, git_dir=workspace.snapshots.storage.git_dir)
    except GitFailed:
        return None
    return printed.decode().strip()


async def _commit(workspace: Workspace, snapshot: Snapshot, parent: str, proposal: Proposal) -> str:
    """Commit a snapshot with the date of the snapshot, so that the commit does not depend on the clock."""
    name, address = parse_author(proposal.author)
    by = f"{name} <{address}> {int(snapshot.taken_at.timestamp())} +0000"
    said = commit_message(proposal.title, proposal.summary, proposal.session_id, proposal.run_id)
    text = f"tree {snapshot.tree}\nparent {parent}\nauthor {by}\ncommitter {by}\n\n{said}"
    printed = await workspace.git.run(
        *("hash-object", "-t", "commit", "-w", "--stdin"),
        git_dir=workspace.snapshots.storage.git_dir,
        stdin=text.encode(errors="replace"),
    )
    return printed.decode().strip()
