"""A change: a branch with a commit that people can review and merge."""

from typing import Literal

from hutch.system.lazy_dataclass import dataclass

ForgeName = Literal["local", "git", "github"]
ChangeState = Literal["open", "merged", "closed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A proposed commit, its branch, and its state."""

    id: str
    session_id: str
    run_id: str
    repository: str  # a URL, or a directory of this machine
    branch: str
    base: str  # the branch to merge into
    base_commit: str
    commit: str
    title: str
    body: str
    tests: str  # the test result in one line; empty when there are no tests
    state: ChangeState = "open"
    created_ms: int
    merged_commit: str = ""
    forge: ForgeName = "local"  # `git`: a remote repository without a known API, so it has branches only
    number: int = 0  # of the pull request; 0 when there is none
    web_url: str = ""  # the page of the pull request

    @property
    def url(self) -> str:
        """Where people can view it."""
        return self.web_url or f"{self.repository}#{self.branch}"

    @property
    def tests_fail(self) -> bool:
        """True if its tests were run and failed; `tests` never lists a count of zero."""
        return "failed" in self.tests
