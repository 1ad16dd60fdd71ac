"""Reviews of a change: comments on lines, and verdicts."""

from typing import Literal

from hutch.domain.git_patch import Side
from hutch.system.lazy_dataclass import dataclass

Severity = Literal["blocker", "should", "could"]
Verdict = Literal["approved", "changes_requested", "commented"]
AGENT = "hutch"  # the author of the agent's reviews; no user id looks like this


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """A comment on a line before it is stored."""

    path: str
    line: int
    body: str
    severity: Severity | None = None
    side: Side = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A stored comment on a line of one commit."""

    id: str
    change_id: str
    review_id: str = ""  # empty when it does not belong to a review
    author: str
    path: str
    line: int
    side: Side
    severity: str  # empty when not set
    body: str
    commit: str
    created_ms: int
    resolved_ms: int = 0  # 0 until then
    resolved_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Review:
    """A verdict on a change or a pull request, at one commit."""

    id: str
    change_id: str = ""
    pull_url: str = ""  # of a pull request that is not a change of this installation
    author: str
    verdict: Verdict
    title: str = ""
    body: str
    commit: str
    session_id: str = ""
    run_id: str = ""
    url: str = ""  # where it was posted; empty until then
    created_ms: int

    @property
    def is_pending(self) -> bool:
        """True if it must be posted and is not known to be."""
        return bool(self.pull_url and not self.url)
