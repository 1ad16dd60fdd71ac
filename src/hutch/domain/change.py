"""A change: a branch with a commit that somebody can review and merge."""

from dataclasses import dataclass
from typing import Literal

ForgeName = Literal["local", "git", "github"]
ChangeState = Literal["open", "merged", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A proposal, where it lies, and what became of it."""

    id: str
    session_id: str
    run_id: str
    repository: str  # an address, or a directory of this machine
    branch: str
    base: str  # the branch that it is for
    base_commit: str
    commit: str
    title: str
    body: str
    tests: str  # what the tests said, in a line; empty when there are none
    state: ChangeState = "open"
    created_ms: int
    merged_commit: str = ""
    forge: ForgeName = "local"  # `git` is a repository elsewhere of which only branches are known
    number: int = 0  # of the pull request, where there is one
    web_url: str = ""  # the same, for people

    @property
    def url(self) -> str:
        """Where it can be looked at."""
        return self.web_url or f"{self.repository}#{self.branch}"

    @property
    def tests_fail(self) -> bool:
        """Whether its tests were run, and said no; `tests` names no count of zero."""
        return "failed" in self.tests
