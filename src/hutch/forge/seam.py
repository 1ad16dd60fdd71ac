"""A forge: where branches become pull requests, and people speak about them.

A `Forge` stands for one repository there, with the credentials of whoever it works
for. Texts are written as they are given: whoever calls has taken the secrets out.
"""

from dataclasses import dataclass, field
from typing import Literal, Protocol

from hutch.forge.repo_url import RepoUrl

PullState = Literal["open", "closed", "merged"]
Permission = Literal["none", "read", "triage", "write", "maintain", "admin"]
Spoken = Literal["comments", "lines", "reviews"]  # below it, on lines of it, or as a review of it
# What was asked of a forge by somebody who is gone may still be done for so long: GitHub gives up at ten.
SETTLE_S = 12.0
Verdict = Literal["COMMENT", "APPROVE", "REQUEST_CHANGES"]
MergeMethod = Literal["merge", "squash", "rebase"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PullRequestWanted:
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
class Review:
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


class Forge(Protocol):
    """One repository of a forge."""

    async def target(self) -> Target:
        """Where to push: a copy is made when there is no write access."""
        ...

    async def check(self) -> None:
        """Refuse what `target` would refuse, and make nothing."""
        ...

    async def open(self, wanted: PullRequestWanted) -> PullRequest:
        """Propose a branch that was pushed. One that proposes it already is updated instead."""
        ...

    async def update(
        self,
        number: int,
        *,
        title: str | None = None,
        body: str | None = None,
        labels: tuple[str, ...] = (),
        reviewers: tuple[str, ...] = (),
    ) -> PullRequest:
        """Say something else about a pull request; labels and reviewers are added to those there are."""
        ...

    async def pull(self, number: int) -> PullRequest: ...

    async def diff(self, number: int) -> bytes:
        """A pull request as a patch."""
        ...

    async def merge(self, number: int, *, commit: str, method: MergeMethod | None = None) -> str:
        """Bring a pull request into its base, if it is at `commit`: the commit that came of it, empty where
        that is not told. Without a method, as the repository allows. One that is merged already is fine."""
        ...

    async def close(self, number: int) -> PullRequest:
        """Close it; what was proposed is not wanted."""
        ...

    async def drop_branch(self, pull: PullRequest) -> str:
        """Delete the branch of a pull request that is over; why it stays, if it does."""
        ...

    async def comment(self, number: int, body: str, *, id: int | None = None) -> Posted:
        """Say something below an issue or pull request, or replace what comment `id` says."""
        ...

    async def find(self, number: int, marker: str, *, among: Spoken = "comments") -> Posted | None:
        """What was said below an issue or pull request, or on lines of it, and holds this text."""
        ...

    async def reply(self, number: int, comment_id: int, body: str) -> Posted:
        """Answer a comment on a line."""
        ...

    async def remark(self, number: int, comment: LineComment, *, commit: str) -> Posted:
        """Say something about a line by itself, as it is at `commit`."""
        ...

    async def review(self, number: int, review: Review) -> Posted: ...

    async def verdicts(self, number: int) -> Verdicts:
        """Who holds it back there. Of strangers, whom anybody may be, nothing is counted."""
        ...

    async def permission(self, user: str) -> Permission:
        """What a person may do with the repository."""
        ...

    async def me(self) -> str:
        """Who we are there: a login."""
        ...
