"""What people and reviewers say about a change: comments on lines, and verdicts."""

from dataclasses import dataclass
from typing import Literal

from hutch.domain.patch import Side

Severity = Literal["blocker", "should", "could"]
Verdict = Literal["approved", "changes_requested", "commented"]
AGENT = "hutch"  # who a review by the agent is by; ids of users look otherwise


@dataclass(frozen=True, slots=True, kw_only=True)
class Remark:
    """Something to be said about a line."""

    path: str
    line: int
    body: str
    severity: Severity | None = None
    side: Side = "new"


@dataclass(frozen=True, slots=True, kw_only=True)
class Comment:
    """A remark that was made, by whom, and about which commit."""

    id: str
    change_id: str
    review_id: str = ""  # that it belongs to; empty when it was made by itself
    author: str
    path: str
    line: int
    side: Side
    severity: str  # empty when it was not said
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
    pull_url: str = ""  # of a pull request, when it is no change of ours
    author: str
    verdict: Verdict
    title: str = ""
    body: str
    commit: str
    session_id: str = ""
    run_id: str = ""
    url: str = ""  # where it was posted; empty when it is only here
    created_ms: int

    @property
    def is_pending(self) -> bool:
        """Whether it is to be posted, and it is not known that it was."""
        return bool(self.pull_url and not self.url)
