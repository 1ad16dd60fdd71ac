"""What is asked of GitHub's API, and what it answers."""

from dataclasses import dataclass, field
from typing import Literal

from hutch.forge.repo_url import RepoUrl

PullState = Literal["open", "closed", "merged"]
Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
ThreadKind = Literal["comments", "lines", "reviews"]  # below it, on lines of it, or as a review of it
Verdict = Literal["COMMENT", "APPROVE", "REQUEST_CHANGES"]
MergeMethod = Literal["merge", "squash", "rebase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewPullRequest:
    """A branch that was pushed, and what is to be said about it."""

    branch: str
    head_owner: str  # whose copy of the repository the branch is in: `Target.owner`
    base: str
    commit: str  # that the branch is at
    title: str
    body: str
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()  # people, or `owner/team`


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequest:
    """A pull request as the forge has it."""

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
    head_repository: str = ""  # whose branch it is, as OWNER/NAME; empty when that copy is gone
    merged_commit: str = ""  # that came of it; empty until then
    notes: tuple[str, ...] = field(default=())  # what could not be done, such as a label nobody made


@dataclass(frozen=True, slots=True)
class Target:
    """Where a branch can be pushed to: the repository itself, or a copy of it that we may write to."""

    remote: RepoUrl  # with credentials
    owner: str
    default: str = ""  # branch of the repository that changes are for
    forked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class LineComment:
    """What is to be said about a line of a pull request, or a range that ends with it."""

    path: str
    line: int
    body: str
    side: Literal["LEFT", "RIGHT"] = "RIGHT"
    start_line: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReview:
    """A review: a summary, and comments on lines."""

    commit: str  # that was read
    body: str
    comments: tuple[LineComment, ...] = ()
    verdict: Verdict = "COMMENT"


@dataclass(frozen=True, slots=True)
class Posted:
    """A comment or review that is there now."""

    id: int
    url: str


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What people who may write there have said of a pull request."""

    against: tuple[str, ...]  # who asked for changes, and has not approved it since
    urls: frozenset[str]  # of all that approve it or ask for changes
