"""A repository on another machine that Hutch can only push branches to."""

from hutch.domain.errors import BadRequest
from hutch.domain.proposed_change import Change, ForgeName
from hutch.domain.review import Comment, Review
from hutch.forge.branch_push import RemoteBranches, push
from hutch.forge.interface import (
    ChangeStatus,
    Commits,
    Merge,
    MergeResult,
    Objections,
    OnStep,
    ProposedChange,
    Statement,
    Work,
    ignore_step,
    recorded_status,
)
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class PlainGit:
    """`Forge` for an address that git can push to."""

    remote: RepoUrl
    without_token: RepoUrl | None = None

    @property
    def name(self) -> ForgeName:
        return "git"

    @property
    def acts_on_text(self) -> bool:
        return True

    async def check(self, commits: Commits, commit: str) -> None:
        await RemoteBranches(commits, self.remote).check(commit)

    async def propose(self, work: Work, on_step: OnStep = ignore_step) -> ProposedChange:
        pushed = await push(RemoteBranches(work.commits, self.remote), work, self.remote.address, on_step)
        await on_step("opening", f"Opening {pushed.branch} for review...")
        return ProposedChange(branch=pushed.branch, draft=pushed.draft, continues=pushed.continues)

    async def read(self, change: Change) -> ChangeStatus:
        return recorded_status(change)

    async def diff(self, change: Change) -> bytes:
        raise _not_supported(change)

    async def merge(self, change: Change, merge: Merge) -> MergeResult:
        await merge.consent(Objections())
        raise _not_supported(change)

    async def close(self, change: Change) -> str:
        raise _not_supported(change)

    async def post(self, change: Change, statement: Statement) -> str:
        if isinstance(statement.content, Comment):  # the lines of the diff are unknown
            raise _not_supported(change)
        return ""

    async def find(self, change: Change, review: Review) -> str | None:
        return None


def _not_supported(change: Change) -> BadRequest:
    return BadRequest(
        f"{change.repository} is not on this machine, and no pull request was opened for {change.branch} "
        "there. Open one there, or fetch the branch into a clone and merge it by hand."
    )
