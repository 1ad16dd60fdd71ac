"""The interface to a forge, where changes are proposed, reviewed and merged.

A `Forge` is one repository with the credentials of one caller: a directory on this machine, a plain git
address, or a repository on GitHub. Callers redact texts before they pass them.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, Protocol

from hutch.domain.errors import Conflict
from hutch.domain.git_patch import Patch
from hutch.domain.proposed_change import Change, ChangeState, ForgeName
from hutch.domain.review import Comment, Remark, Review
from hutch.forge.host_git import Git
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

# A request can still take effect this long after its sender was killed: GitHub times out after ten seconds.
SETTLE_DELAY_S = 12.0
Strategy = Literal["fast-forward", "merge", "squash", "rebase"]
Step = Literal["branching", "committing", "pushing", "opening"]
OnStep = Callable[[Step, str], Awaitable[None]]


async def ignore_step(step: Step, message: str) -> None:
    """The default callback: shows no progress."""


class ClosedOnForge(Conflict):
    """The change was closed on its forge."""


@dataclass(frozen=True, slots=True)
class Commits:
    """Hutch's own git directory with the commits to propose."""

    git: Git
    git_dir: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """One commit and its description."""

    commit: str
    base: str  # the target branch; HEAD when the work started from a commit
    title: str
    body: str
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """The work to propose: on a new branch, or on the branch of `before` while that exists."""

    commits: Commits
    base_commit: str
    branch: str  # the name to use if it is free
    new: Draft
    before: Change | None = None  # an open change of the same session
    next: Draft | None = None  # the same work on top of `before`
    is_draft: bool = False
    describe: Callable[[str], str] = str  # turns a body into the text of a pull request


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedChange:
    """Work that was pushed to a branch and, where the forge supports that, proposed."""

    branch: str
    draft: Draft
    continues: bool  # it was added to the branch of an earlier change
    number: int = 0  # of the pull request; 0 without one
    url: str = ""
    state: ChangeState = "open"
    notes: tuple[str, ...] = ()  # steps that failed, such as a label that does not exist


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeStatus:
    """The state of a change on its forge."""

    state: ChangeState
    title: str
    body: str
    base: str
    base_commit: str
    commit: str
    repository: str  # the address that a reviewer clones
    pull_url: str = ""  # the key that reviews are stored under; empty unless it is a pull request
    merged_commit: str = ""


@dataclass(frozen=True, slots=True)
class Objections:
    """Reasons on the forge not to merge."""

    reasons: tuple[str, ...] = ()
    verdict_urls: frozenset[str] = frozenset()  # verdicts that count on the forge only
    force_refusal: str = ""  # why only an owner may override them


@dataclass(frozen=True, slots=True)
class Merge:
    """How to merge. `consent` raises an error if the objections stand, and returns otherwise."""

    author: str  # of a merge commit that Hutch makes
    strategy: Strategy | None
    consent: Callable[[Objections], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The result of merging a change into its base branch."""

    commit: str  # the new head of the base; empty if the forge does not report it
    branch_stays: str = ""  # why the change's branch was not deleted; empty if it was


@dataclass(frozen=True, slots=True)
class Attempt:
    """Identifies a request that may be a repetition."""

    mark: str = ""  # the same for every repetition; empty if unknown
    tried_ms: int = 0  # when a killed process tried it; 0 if none did


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """A comment on a line or a review, to be posted once."""

    content: Comment | Review
    name: str = ""  # the author's name, for readers
    attempt: Attempt = Attempt()
    remarks: tuple[Remark, ...] = ()  # comments on lines in an agent's review
    patch: Patch | None = None  # the patch that the agent reviewed


class Forge(Protocol):
    """One repository on a forge."""

    @property
    def name(self) -> ForgeName: ...

    @property
    def acts_on_text(self) -> bool:
        """True if mentions and closing keywords in commit messages take effect."""
        ...

    @property
    def without_token(self) -> RepoUrl | None:
        """The GitHub address for which no token is set; only a branch can be pushed to it."""
        ...

    async def check(self, commits: Commits, commit: str) -> None:
        """Raise the errors that `propose` is certain to raise. Pushes nothing."""
        ...

    async def propose(self, work: Work, on_step: OnStep = ignore_step) -> ProposedChange:
        """Push a branch and open or update its pull request. Repeating it is safe."""
        ...

    async def read(self, change: Change) -> ChangeStatus: ...

    async def diff(self, change: Change) -> bytes:
        """The patch of a change; of a pull request, in its current state."""
        ...

    async def merge(self, change: Change, merge: Merge) -> MergeResult:
        """Merge a change into its base branch and delete its own branch if no commit is lost."""
        ...

    async def close(self, change: Change) -> str:
        """Close a change and delete its branch. Returns why the branch was not deleted, if so."""
        ...

    async def post(self, change: Change, statement: Statement) -> str:
        """Post a statement, unless it is already posted, and return its URL.

        The URL is empty where statements are stored in Hutch only. A comment on a line that does not exist
        is refused.
        """
        ...

    async def find(self, change: Change, review: Review) -> str | None:
        """The URL of a posted review; None if it was not posted."""
        ...


def recorded_status(change: Change) -> ChangeStatus:
    """The status of a change that only Hutch knows about."""
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
