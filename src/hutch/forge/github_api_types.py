"""Requests to GitHub's API, and its responses."""

from dataclasses import field
from typing import Literal

from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

PullState = Literal["open", "closed", "merged"]
Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
ThreadKind = Literal[
    "comments", "lines", "reviews"
]  # comments below a pull request, comments on its lines, reviews
Verdict = Literal["COMMENT", "APPROVE", "REQUEST_CHANGES"]
MergeMethod = Literal["merge", "squash", "rebase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPullRequest:
    """A pull request to open for a pushed branch."""

    branch: str
    head_owner: str  # owner of the repository or fork with the branch: `Target.owner`
    base: str
    commit: str  # the head of the branch
    title: str
    body: str
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()  # users, or `owner/team`


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request on GitHub."""

    number: int
    url: str
    title: str
    body: str
    state: PullState
    draft: bool
    author: str
    base: str
    base_commit: str
    branch: str
    head_owner: str
    commit: str
    head_repository: str = ""  # OWNER/NAME with the branch; empty if that fork was deleted
    merged_commit: str = ""  # the result of the merge; empty before
    notes: tuple[str, ...] = field(default=())  # steps that failed, such as a label that does not exist


@dataclass(frozen=True, slots=True)
class Target:
    """Where to push a branch: the repository, or a fork with write access."""

    remote: RepoUrl  # with credentials
    owner: str
    default: str = ""  # the default branch of the repository
    forked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineComment:
    """A comment on a line of a pull request, or on a range that ends with it."""

    path: str
    line: int
    body: str
    side: Literal["LEFT", "RIGHT"] = "RIGHT"
    start_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReview:
    """A review: a summary, and comments on lines."""

    commit: str  # the commit that was reviewed
    body: str
    comments: tuple[LineComment, ...] = ()
    verdict: Verdict = "COMMENT"


@dataclass(frozen=True, slots=True)
class Posted:
    """A comment or review that was posted."""

    id: int
    url: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """Verdicts on a pull request by users with write access."""

    against: tuple[str, ...]  # users who requested changes and have not approved since
    urls: frozenset[str]  # of all approvals and requests for changes
