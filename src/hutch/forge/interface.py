"""A forge: where work is proposed, reviewed and merged.

A `Forge` stands for one repository, with the credentials of one caller: a directory of this machine, a
plain git address, or a repository on GitHub. Callers redact texts before they hand them over.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hutch.domain.change import Change, ChangeState, ForgeName
from hutch.domain.errors import Conflict
from hutch.domain.patch import Patch
from hutch.domain.review import Comment, Remark, Review
from hutch.forge.git import Git
from hutch.forge.repo_url import RepoUrl

# A request to a forge may take effect for so long after its sender is gone: GitHub gives up at ten seconds.
SETTLE_DELAY_S = 12.0
Strategy = Literal["fast-forward", "merge", "squash", "rebase"]
Step = Literal["branching", "committing", "pushing", "opening"]
OnStep = Callable[[Step, str], Awaitable[None]]


async def ignore_step(step: Step, message: str) -> None:
    """For callers that show no progress."""


class ClosedOnForge(Conflict):
    """The change was closed where it was proposed."""


@dataclass(frozen=True, slots=True)
class Commits:
    """A git directory of ours that holds the commits to be proposed."""

    git: Git
    git_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """The work as one commit, and its description."""

    commit: str
    base: str  # the branch that it is for; HEAD when the work began at a commit
    title: str
    body: str
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """What is to be proposed: on a new branch, or on that of `before` while it exists."""

    commits: Commits
    base_commit: str
    branch: str  # the name to use if it is free
    new: Draft
    before: Change | None = None  # an open change of the same session
    next: Draft | None = None  # the same work on top of `before`
    is_draft: bool = False
    describe: Callable[[str], str] = str  # a body as the text of a pull request


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """Work that is on a branch now, and proposed as far as its forge does that."""

    branch: str
    draft: Draft
    continues: bool  # the branch of the change before
    number: int = 0  # of the pull request; 0 where there is none
    url: str = ""
    state: ChangeState = "open"
    notes: tuple[str, ...] = ()  # what could not be done, such as a label that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatus:
    """A change as it is where it was proposed."""

    state: ChangeState
    title: str
    body: str
    base: str
    base_commit: str
    commit: str
    repository: str  # for a reviewer to clone
    pull_url: str = ""  # the address that reviews are kept under; empty where it is no pull request
    merged_commit: str = ""


@dataclass(frozen=True, slots=True)
class Objections:
    """What speaks against a merge at the forge."""

    reasons: tuple[str, ...] = ()
    verdict_urls: frozenset[str] = frozenset()  # of verdicts that count there, and not here
    force_refusal: str = ""  # why only an owner may override them


@dataclass(frozen=True, slots=True)
class Merge:
    """How to merge. `consent` refuses, or returns when nothing speaks against it any more."""

    author: str  # of a merge commit that is made here
    strategy: Strategy | None
    consent: Callable[[Objections], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """A change that is in its base branch."""

    commit: str  # that the base is at now; empty where the forge does not say
    branch_stays: str = ""  # why the change's own branch was not deleted; empty when it was


@dataclass(frozen=True, slots=True)
class Attempt:
    """Identifies a request that may have been made before."""

    mark: str = ""  # the same each time; empty where nobody can know
    tried_ms: int = 0  # when a process that was killed tried it; 0 when none was


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A comment on a line or a review, to be posted once."""

    content: Comment | Review
    name: str = ""  # of the user who says it, for readers
    attempt: Attempt = Attempt()
    remarks: tuple[Remark, ...] = ()  # on lines, of a review by the agent
    patch: Patch | None = None  # that the agent has read


class Forge(Protocol):
    """One repository."""

    @property
    def name(self) -> ForgeName: ...

    @property
    def acts_on_text(self) -> bool:
        """Whether others read there what commits say, and mentions and closing words take effect."""
        ...

    @property
    def without_token(self) -> RepoUrl | None:
        """The address on a GitHub for which there is no token, so that only a branch can be had."""
        ...

    async def check(self, commits: Commits, commit: str) -> None:
        """Refuse what `propose` is sure to refuse; nothing is pushed."""
        ...

    async def propose(self, work: Work, on_step: OnStep = ignore_step) -> ProposedChange:
        """Push a branch, and open or update the pull request of it. Work that is there is found again."""
        ...

    async def read(self, change: Change) -> ChangeStatus: ...

    async def diff(self, change: Change) -> bytes:
        """A change as a patch; a pull request as it is now."""
        ...

    async def merge(self, change: Change, merge: Merge) -> MergeResult:
        """Bring a change into its base branch, and delete its own when nothing is lost by that."""
        ...

    async def close(self, change: Change) -> str:
        """Close a change and delete its branch; the reason, if the branch stays."""
        ...

    async def post(self, change: Change, statement: Statement) -> str:
        """Post a statement where the change is, unless it is there; its address, empty where it is kept here
        alone. A comment on a line that does not exist is refused."""
        ...

    async def find(self, change: Change, review: Review) -> str | None:
        """The address of a review that was posted; None when it was not."""
        ...


def recorded_status(change: Change) -> ChangeStatus:
    """A change that is known here alone."""
    return ChangeStatus(
        state=change.state,
        title=change.title,
        body=change.body,
        base=change.base,
        base_commit=change.base_commit,
        commit=change.commit,
        repository=change.repository,
        merged_commit=change.merged_commit,
    )
