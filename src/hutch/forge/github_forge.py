"""A repository on GitHub as a forge: changes are pull requests there.

GitHub's state decides: users may push to a pull request, merge it or close it there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from hutch.domain.commit_text import one_line, strip_controls
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound, Unavailable
from hutch.domain.git_patch import FilePatch, Patch, parse_patch
from hutch.domain.proposed_change import Change, ForgeName
from hutch.domain.review import AGENT, Comment, Remark, Review
from hutch.forge.branch_push import RemoteBranches, push
from hutch.forge.github_api_types import (
    LineComment,
    MergeMethod,
    NewPullRequest,
    NewReview,
    Posted,
    PullRequest,
    ThreadKind,
    Verdict,
)
from hutch.forge.github_repository_api import GitHub
from hutch.forge.github_token_selection import own_token_name
from hutch.forge.interface import (
    SETTLE_DELAY_S,
    Attempt,
    ChangeStatus,
    ClosedOnForge,
    Commits,
    Merge,
    MergeResult,
    Objections,
    OnStep,
    ProposedChange,
    Statement,
    Strategy,
    Work,
    ignore_step,
    recorded_status,
)
from hutch.forge.posted_text_escaping import MAX_CHARS, OWN_MARKER, escape_html_comments, escape_mentions
from hutch.forge.repo_url import RepoUrl, parse_repo_url
from hutch.system.clock_without_jumps import remaining_s, wall_ms
from hutch.system.lazy_dataclass import dataclass

VERDICTS: dict[str, Verdict] = {"approved": "APPROVE", "changes_requested": "REQUEST_CHANGES"}
VERDICT_PHRASES = {"approved": "approves this", "changes_requested": "asks for changes"}
METHODS: dict[Strategy | None, MergeMethod | None] = {
    None: None,
    "merge": "merge",
    "squash": "squash",
    "rebase": "rebase",
}
MAX_RANGES = 10


@dataclass(frozen=True, slots=True)
class GitHubForge:
    """`Forge` for a repository on GitHub."""

    api: GitHub
    user: str = ""  # the Hutch user that it acts for; empty on the command line
    is_own: bool = True  # whether the token is that user's

    @property
    def name(self) -> ForgeName:
        return "github"

    @property
    def acts_on_text(self) -> bool:
        return True

    @property
    def without_token(self) -> RepoUrl | None:
        return None

    async def check(self, commits: Commits, commit: str) -> None:
        await self.api.check()

    async def propose(self, work: Work, on_step: OnStep = ignore_step) -> ProposedChange:
        target = await self.api.target()
        pushed = await push(RemoteBranches(work.commits, target.remote), work, target.remote.address, on_step)
        await on_step("opening", f"Opening {pushed.branch} for review...")
        draft = pushed.draft
        if draft.base == "HEAD":
            draft = replace(draft, base=target.default)
        pull = await self.api.open(
            NewPullRequest(
                branch=pushed.branch,
                head_owner=target.owner,
                base=draft.base,
                commit=draft.commit,
                title=draft.title,
                body=work.describe(draft.body)[:MAX_CHARS],
                draft=work.is_draft,
                labels=draft.labels,
                reviewers=draft.reviewers,
            )
        )
        return ProposedChange(
            branch=pushed.branch,
            draft=draft,
            continues=pushed.continues,
            number=pull.number,
            url=pull.url,
            state=pull.state,
            notes=pull.notes,
        )

    async def read(self, change: Change) -> ChangeStatus:
        if not change.number:  # it was pushed without a token, so there is no pull request
            return recorded_status(change)
        pull = await self.api.pull(change.number)
        page = web_address(change.repository)
        repository = parse_repo_url(page).address.removesuffix(".git").lower()  # normalised
        return ChangeStatus(
            state=pull.state,
            title=pull.title,
            body=pull.body,
            base=pull.base,
            base_commit=pull.base_commit,
            commit=pull.commit,
            repository=repository,
            pull_url=f"{repository}/pull/{change.number}",
            merged_commit=pull.merged_commit,
        )

    async def diff(self, change: Change) -> bytes:
        return await self.api.diff(change.number)

    async def merge(self, change: Change, merge: Merge) -> MergeResult:
        if merge.strategy not in METHODS:
            raise BadRequest(
                f"A pull request cannot be merged by '{merge.strategy}': GitHub always makes a new commit. "
                "Choose merge, squash or rebase."
            )
        pull = await self._pull(change)
        if pull.state == "merged":  # at GitHub, or by a process that was killed before it recorded that
            return MergeResult(pull.merged_commit, await self._delete_branch(change, pull))
        _check_as_proposed(change, pull)
        verdicts = await self.api.verdicts(change.number)
        against = tuple(f"{login} asked for changes at {pull.url}" for login in verdicts.against)
        refusal = "" if self.is_own else self._refuse_force(change)
        await merge.consent(Objections(against, verdicts.urls, refusal))
        try:
            method = METHODS[merge.strategy]
            made = await self.api.merge(change.number, commit=pull.commit, method=method)
        except Conflict as refused:
            raise Conflict(f"{refused} See {pull.url}") from None
        return MergeResult(made, await self._delete_branch(change, pull))

    async def close(self, change: Change) -> str:
        pull = await self.api.pull(change.number)
        if pull.state == "merged":
            raise Conflict(f"{pull.url} is already merged and cannot be closed.")
        if pull.state == "open":
            pull = await self.api.close(change.number)
        return await self._delete_branch(change, pull)

    async def post(self, change: Change, statement: Statement) -> str:
        match statement.content:
            case Comment() as comment:
                return (await self._comment(change, comment, statement)).url
            case Review(author=author) as review if author == AGENT:
                return (await self._review_by_agent(change, review, statement)).url
            case Review() as review:
                return (await self._review(change, review, statement)).url

    async def find(self, change: Change, review: Review) -> str | None:
        found = await self.api.find(change.number, _agent_marker(review), among="reviews")
        return found.url if found else None

    # --- inside ---

    async def _comment(self, change: Change, comment: Comment, statement: Statement) -> Posted:
        """Comment on a line. GitHub accepts comments only on lines in the diff."""
        pull = await self._pull(change)
        _check_as_proposed(change, pull)
        patch = await asyncio.to_thread(parse_patch, await self.api.diff(change.number))
        if not patch.shows(comment.path, comment.side, comment.line):
            raise BadRequest(_line_not_in_diff(comment, patch.files.get(comment.path), pull.url))
        marker = f"<!-- hutch-comment {statement.attempt.mark or comment.id} -->"
        severity = f"**{comment.severity}**: " if comment.severity else ""
        line = LineComment(
            path=comment.path,
            line=comment.line,
            side="LEFT" if comment.side == "old" else "RIGHT",
            body=f"{self._attribute(severity + comment.body, statement.name)}\n{OWN_MARKER}{marker}",
        )
        return await self._post_once(
            change,
            lambda: self.api.comment_on_line(change.number, line, commit=pull.commit),
            marker,
            statement.attempt,
            among="lines",
        )

    async def _review(self, change: Change, review: Review, statement: Statement) -> Posted:
        """Post a user's verdict as a review by the token's account.

        For a user without their own token, the review only quotes the verdict, which then counts in Hutch
        only: a shared account must not approve or block for one of its users.
        """
        pull = await self._pull(change)
        _check_as_proposed(change, pull)
        marker = f"<!-- hutch-review {statement.attempt.mark or review.id} -->"
        text = self._attribute(review.body, statement.name, VERDICT_PHRASES[review.verdict])
        new_review = NewReview(
            commit=pull.commit,
            body=f"{text}\n{OWN_MARKER}{marker}".strip(),
            verdict=VERDICTS[review.verdict] if self.is_own else "COMMENT",
        )
        try:
            return await self._post_once(
                change,
                lambda: self.api.review(change.number, new_review),
                marker,
                statement.attempt,
                among="reviews",
            )
        except Conflict as refused:
            if "your own pull request" not in str(refused):
                raise
            raise Conflict(
                f"GitHub does not let users review their own pull requests. This one is by "
                f"{pull.author or 'the same account'}, whose token Hutch uses. Review it with another "
                f"account: {pull.url}"
            ) from None

    async def _review_by_agent(self, change: Change, review: Review, statement: Statement) -> Posted:
        """Post the agent's remarks as one review. Those that GitHub refuses on a line go into its text."""
        number, marker, remarks = change.number, _agent_marker(review), statement.remarks
        if found := await self.api.find(number, marker, among="reviews"):
            return found  # a process posted it and was killed
        patch = statement.patch or Patch({})
        on_lines = [remark for remark in remarks if patch.shows(remark.path, "new", remark.line)]
        try:
            return await self.api.review(number, _agent_review(review, remarks, on_lines))
        except NotFound:
            raise
        except Unavailable:  # it may be posted: only the response may be lost
            if found := await self.api.find(number, marker, among="reviews"):
                return found
            raise
        except BadRequest:
            if not on_lines:
                raise
        return await self.api.review(number, _agent_review(review, remarks, []))

    async def _pull(self, change: Change) -> PullRequest:
        pull = await self.api.pull(change.number)
        if pull.state == "closed":
            raise ClosedOnForge(f"{pull.url} was closed on GitHub. Reopen it there first.")
        return pull

    async def _delete_branch(self, change: Change, pull: PullRequest) -> str:
        if pull.branch != change.branch:
            return f"{pull.branch} was not deleted: the change was on {change.branch}."
        try:
            return await self.api.delete_branch(replace(pull, commit=change.commit))
        except HutchError as error:  # the pull request is merged or closed nevertheless
            return f"{pull.branch} was not deleted: {error}"

    async def _post_once(
        self,
        change: Change,
        post: Callable[[], Awaitable[Posted]],
        marker: str,
        attempt: Attempt,
        *,
        among: ThreadKind,
    ) -> Posted:
        """Post, unless an earlier attempt did so without recording it."""
        if attempt.mark:
            if attempt.tried_ms:
                await asyncio.sleep(remaining_s(attempt.tried_ms, SETTLE_DELAY_S, wall_ms()))
            if found := await self.api.find(change.number, marker, among=among):
                return found
        try:
            return await post()
        except Unavailable:  # it may be posted: only the response may be lost
            if found := await self.api.find(change.number, marker, among=among):
                return found
            raise

    def _refuse_force(self, change: Change) -> str:
        name = own_token_name(parse_repo_url(change.repository), self.user)
        return (
            f"Only your own token can override objections on GitHub. An owner can merge {change.id}, "
            f"or set one for you: hutch config set-secret {name}"
        )

    def _attribute(self, body: str, name: str, does: str = "") -> str:
        """A user's text, with their name if the token is not theirs."""
        author = f"{escape_mentions(name)} {does}, and" if does else f"By {escape_mentions(name)}, who"
        by = "" if self.is_own else f"*{author} has no token of their own here.*"
        return "\n\n".join(filter(None, [by, escape_html_comments(body)]))


def web_address(source: str) -> str:
    """The page of a repository on a GitHub, for any form of its address."""
    url = parse_repo_url(source)
    scheme = url.transport if url.transport in ("http", "https") else "https"
    return f"{scheme}://{url.authority}/{'/'.join(url.slug or ())}"


def _check_as_proposed(change: Change, pull: PullRequest) -> None:
    if pull.state != "open":
        raise Conflict(f"{pull.url} is already {pull.state}.")
    if pull.commit != change.commit:
        raise Conflict(
            f"{change.branch} has moved since it was proposed: it is at {pull.commit[:12]}, but "
            f"{change.commit[:12]} was proposed and tested. Review and merge the new state on GitHub: "
            f"{pull.url}"
        )
    if pull.base != change.base:
        raise Conflict(
            f"It was proposed for {change.base}, but its base is {pull.base} now. Review and merge it on "
            f"GitHub: {pull.url}"
        )


def _line_not_in_diff(comment: Comment, found: FilePatch | None, url: str) -> str:
    path = strip_controls(comment.path)[:200]
    if found is None:
        return f"The pull request does not touch '{path}'. Choose a file of its diff, or comment at {url}"
    ranges = [f"{each.start} to {each.stop - 1}" for each in found.shown[comment.side] if each]
    more = f" and {len(ranges) - MAX_RANGES} more" if len(ranges) > MAX_RANGES else ""
    lines = ", ".join(ranges[:MAX_RANGES]) + more if ranges else "none"
    return (
        f"GitHub accepts comments only on lines in the diff, which for '{path}' does not show line "
        f"{comment.line}. It shows {lines}. Choose one of these, or comment at {url}"
    )


def _agent_marker(review: Review) -> str:
    """The text by which a posted review is found. It cannot be guessed before."""
    return f"<!-- hutch-review {review.run_id} -->"


def _agent_review(review: Review, remarks: tuple[Remark, ...], on_lines: list[Remark]) -> NewReview:
    rest = [remark for remark in remarks if remark not in on_lines]
    parts = [f"**{escape_mentions(review.title)}**", escape_mentions(review.body)]
    parts += [
        f"`{_file_name(remark.path)}:{remark.line}` **{remark.severity}**: {escape_mentions(remark.body)}"
        for remark in rest
    ]
    parts.append(f"{OWN_MARKER}{_agent_marker(review)}")
    lines = tuple(
        LineComment(
            path=remark.path,
            line=remark.line,
            body=f"**{remark.severity}**: {escape_mentions(remark.body)}\n{OWN_MARKER}",
        )
        for remark in on_lines
    )
    # Always a comment: an agent must neither approve nor block.
    return NewReview(commit=review.commit, body="\n\n".join(filter(None, parts)), comments=lines)


def _file_name(path: str) -> str:
    """A file's name, which may contain any characters, in a code span."""
    return escape_mentions(one_line(path.replace("`", "")))
