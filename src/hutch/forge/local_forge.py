"""A repository on this machine: work becomes a branch, and Hutch itself reviews and merges it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from hutch.domain.errors import BadRequest, LimitReached
from hutch.domain.git_patch import parse_patch
from hutch.domain.one_line_text import echo
from hutch.domain.proposed_change import Change, ForgeName
from hutch.domain.review import Comment, Review
from hutch.forge import local_merge, local_repository_jailed_git
from hutch.forge.branch_push import LocalBranches, push
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
from hutch.forge.local_repository_jailed_git import MAX_OUTPUT_BYTES, OpenGit, RunGit
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class LocalRepository:
    """`Forge` for a directory on this machine."""

    path: Path
    open_git: OpenGit
    unrestricted: bool = True  # lifts the limit to repositories that members may name

    @property
    def name(self) -> ForgeName:
        return "local"

    @property
    def acts_on_text(self) -> bool:
        return False

    @property
    def without_token(self) -> RepoUrl | None:
        return None

    async def check(self, commits: Commits, commit: str) -> None:
        """A repository on this machine needs no check."""

    async def propose(self, work: Work, on_step: OnStep = ignore_step) -> ProposedChange:
        async with self._git() as git:
            pushed = await push(LocalBranches(work.commits, git), work, str(self.path), on_step)
        await on_step("opening", f"Opening {pushed.branch} for review...")
        return ProposedChange(branch=pushed.branch, draft=pushed.draft, continues=pushed.continues)

    async def read(self, change: Change) -> ChangeStatus:
        return recorded_status(change)

    async def diff(self, change: Change) -> bytes:
        words = (
            *("diff", "--no-ext-diff", "--no-textconv", "--find-renames"),
            *(change.base_commit, change.commit),
        )
        async with self._git() as git:
            ran = await local_repository_jailed_git.run(git, *words)
        if ran.truncated:
            raise LimitReached(
                f"The patch is larger than {MAX_OUTPUT_BYTES} bytes. View it in the repository: "
                f"git diff {change.base_commit[:12]} {change.commit[:12]}",
                limit="output_bytes",
            )
        return ran.stdout

    async def merge(self, change: Change, merge: Merge) -> MergeResult:
        await merge.consent(Objections())
        local_merge.check_strategy(merge.strategy)
        async with self._git() as git:
            return await local_merge.merge(git, change, strategy=merge.strategy, author=merge.author)

    async def close(self, change: Change) -> str:
        async with self._git() as git:
            await local_merge.delete_branch(git, change)
        return ""

    async def post(self, change: Change, statement: Statement) -> str:
        if isinstance(statement.content, Comment):
            await self._check_line(change, statement.content)
        return ""

    async def find(self, change: Change, review: Review) -> str | None:
        return None

    @asynccontextmanager
    async def _git(self) -> AsyncIterator[RunGit]:
        async with self.open_git(self.path, self.unrestricted) as git:
            yield git

    async def _check_line(self, change: Change, comment: Comment) -> None:
        patch = await asyncio.to_thread(parse_patch, await self.diff(change))
        if patch.shows(comment.path, comment.side, comment.line):
            return
        commit = change.commit if comment.side == "new" else change.base_commit
        lines = await self._count_lines(f"{commit}:{comment.path}")
        if lines is None:
            raise BadRequest(
                f"There is no file {echo(comment.path, 200)} in the change. Name a file of the diff."
            )
        if comment.line > lines:
            raise BadRequest(
                f"{echo(comment.path, 200)} has {lines} lines, so there is no line {comment.line}."
            )

    async def _count_lines(self, name: str) -> int | None:
        """The number of lines of a file in a commit; None if the file does not exist."""
        if "\x00" in name:
            return None
        try:
            name.encode()
        except UnicodeEncodeError:
            return None
        async with self._git() as git:
            ran = await local_repository_jailed_git.run_unchecked(git, "cat-file", "blob", name)
        if ran.exit_code != 0:
            return None
        if ran.truncated:
            raise BadRequest(f"{name.partition(':')[2][:200]!r} is too large to be commented on.")
        return ran.stdout.count(b"\n") + (not ran.stdout.endswith(b"\n") and ran.stdout != b"")
