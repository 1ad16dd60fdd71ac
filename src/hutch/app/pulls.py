"""Changes that are pull requests: they are judged, merged and closed where they are.

What is asked for here is asked of GitHub, as it stands there: somebody may have pushed to
it, merged it or closed it without our knowing. Nothing is noted here before it is so there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import structlog

from hutch.app import forges
from hutch.app.changes import settling
from hutch.app.forge_tokens import token_name
from hutch.app.models import redactor
from hutch.app.settler import Settler
from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, HutchError, Unavailable
from hutch.domain.patch import FilePatch, parse_patch
from hutch.domain.review import Comment, Review
from hutch.flows.commit_text import plain
from hutch.flows.forge_text import OWN, quiet, unhidden
from hutch.flows.review import Merged, Strategy, must_be_fit
from hutch.forge.repo_url import parse_repo_url
from hutch.forge.seam import SETTLE_S, Forge, LineComment, MergeMethod, Posted, PullRequest, Spoken, Verdict
from hutch.forge.seam import Review as PostedReview
from hutch.settings import Loaded
from hutch.store.changes import Changes
from hutch.store.rows import Rows
from hutch.system.clock import remaining_s, wall_ms

logger = structlog.get_logger()

VERDICTS: dict[str, Verdict] = {"approved": "APPROVE", "changes_requested": "REQUEST_CHANGES"}
DOES = {"approved": "approves this", "changes_requested": "asks for changes"}
METHODS: dict[Strategy | None, MergeMethod | None] = {
    None: None,
    "merge": "merge",
    "squash": "squash",
    "rebase": "rebase",
}
SHOWN_RANGES = 10
LOOK_S = 3.0  # for a forge to answer who only looks


@dataclass(frozen=True, slots=True)
class Asked:
    """What is asked for, perhaps not for the first time."""

    mark: str = ""  # the same each time; empty where nobody can know
    tried_ms: int = 0  # when somebody was killed who did it; 0 when nobody was


NEVER_BEFORE = Asked()


@dataclass(frozen=True, slots=True)
class Pull:
    """A change on a forge, and who it is spoken for there."""

    loaded: Loaded
    rows: Rows
    change: Change
    forge: Forge
    user: str = ""  # for whom it is done; empty on the command line
    says: str = ""  # who that is to people
    is_own: bool = True  # whether the token is theirs
    asked: Asked = NEVER_BEFORE

    @property
    def number(self) -> int:
        return self.change.number

    async def merge(self, *, strategy: Strategy | None, force: bool, by: Settler) -> tuple[Merged, list[str]]:
        """Have it merged by its forge, if nothing speaks against it here or there; what was overridden."""
        if strategy not in METHODS:
            raise BadRequest(
                f"A pull request cannot be merged by '{strategy}': GitHub always makes a commit of its own. "
                "Choose merge, squash or rebase."
            )
        pull = await self._now()
        if pull.state == "merged":  # by somebody who was killed before that was noted, or there
            return Merged(pull.merged_commit, await self._dropped(pull)), []
        self._must_be_as_proposed(pull)
        given = await self.forge.verdicts(self.number)
        there = [f"{login} asked for changes at {pull.url}" for login in given.against]
        overridden = await must_be_fit(self.rows, self.change, force=force, also=there, there=given.urls)
        if overridden:
            await by.insist(self.change, overridden, refused="" if self.is_own else self._borrowed())
        try:
            made = await self.forge.merge(self.number, commit=pull.commit, method=METHODS[strategy])
        except Conflict as refused:
            raise Conflict(f"{refused} Look at it there: {pull.url}") from None
        return Merged(made, await self._dropped(pull)), overridden

    async def close(self) -> str:
        """Close it and delete its branch; why that stays, if it does."""
        pull = await self.forge.pull(self.number)
        if pull.state == "merged":
            await Changes(self.rows).end(self.change, "merged", merged_commit=pull.merged_commit)
            raise Conflict(f"{pull.url} is merged already, so there is nothing to close.")
        if pull.state == "open":
            pull = await self.forge.close(self.number)
        return await self._dropped(pull)

    async def comment(self, comment: Comment) -> Posted:
        """Say something about a line there. GitHub takes that for lines that the diff shows."""
        pull = await self._now()
        self._must_be_as_proposed(pull)
        patch = await asyncio.to_thread(parse_patch, await self.forge.diff(self.number))
        if not patch.shows(comment.path, comment.side, comment.line):
            raise BadRequest(_not_shown(comment, patch.files.get(comment.path), pull.url))
        marker = f"<!-- hutch-comment {self.asked.mark or comment.id} -->"
        how_bad = f"**{comment.severity}**: " if comment.severity else ""
        wanted = LineComment(
            path=comment.path,
            line=comment.line,
            side="LEFT" if comment.side == "old" else "RIGHT",
            body=f"{self._words(how_bad + comment.body)}\n{OWN}{marker}",
        )
        return await self._once(
            lambda: self.forge.remark(self.number, wanted, commit=pull.commit), marker, among="lines"
        )

    async def judge(self, given: Review) -> Review:
        """Give a verdict there: a review of its own, by whose token this is.

        Who has none is quoted, and their verdict counts here: an account that speaks for many neither
        approves nor blocks for one of them what another decides.
        """
        pull = await self._now()
        self._must_be_as_proposed(pull)
        marker = f"<!-- hutch-review {self.asked.mark or given.id} -->"
        wanted = PostedReview(
            commit=pull.commit,
            body=f"{self._words(given.body, DOES[given.verdict])}\n{OWN}{marker}".strip(),
            verdict=VERDICTS[given.verdict] if self.is_own else "COMMENT",
        )
        try:
            posted = await self._once(lambda: self.forge.review(self.number, wanted), marker, among="reviews")
        except Conflict as refused:
            if "your own pull request" not in str(refused):
                raise
            raise Conflict(
                f"GitHub lets nobody judge a pull request of their own, and this one is by "
                f"{pull.author or 'the same account'}, whose token Hutch has. Say it there with another "
                f"account: {pull.url}"
            ) from None
        return replace(given, url=posted.url)

    # --- inside ---

    async def _now(self) -> PullRequest:
        """It as it is there; one that was closed there is so here, too."""
        pull = await self.forge.pull(self.number)
        if pull.state == "closed":
            if self.change.state == "open":
                await Changes(self.rows).end(self.change, "closed")
            raise Conflict(f"{pull.url} was closed there. Open it again there first.")
        return pull

    def _must_be_as_proposed(self, pull: PullRequest) -> None:
        change = self.change
        if pull.state != "open":
            raise Conflict(f"{pull.url} is {pull.state} already.")
        if pull.commit != change.commit:
            raise Conflict(
                f"{change.branch} has moved since it was proposed: it is at {pull.commit[:12]}, what was "
                f"proposed and tested is {change.commit[:12]}. Decide there about what it holds now: "
                f"{pull.url}"
            )
        if pull.base != change.base:
            raise Conflict(
                f"It was proposed for {change.base} and is for {pull.base} now. Decide about that there: "
                f"{pull.url}"
            )

    async def _dropped(self, pull: PullRequest) -> str:
        if pull.branch != self.change.branch:
            return f"{pull.branch} stays: what was proposed was on {self.change.branch}."
        try:
            return await self.forge.drop_branch(replace(pull, commit=self.change.commit))
        except HutchError as error:  # it is over all the same
            return f"{pull.branch} stays: {error}"

    async def _once(self, post: Callable[[], Awaitable[Posted]], marker: str, *, among: Spoken) -> Posted:
        """Post what was not posted before, when it was asked for the first time and not noted."""
        if self.asked.mark:
            if self.asked.tried_ms:
                await asyncio.sleep(remaining_s(self.asked.tried_ms, SETTLE_S, wall_ms()))
            if found := await self.forge.find(self.number, marker, among=among):
                return found
        try:
            return await post()
        except Unavailable:  # the answer may be all that was lost
            if found := await self.forge.find(self.number, marker, among=among):
                return found
            raise

    def _borrowed(self) -> str:
        name = f"{token_name(parse_repo_url(self.change.repository))}_{self.user}"
        return (
            f"Nothing is forced there with a token that is not yours. An owner can merge {self.change.id}, "
            f"or set one for you: hutch config set-secret {name}"
        )

    def _words(self, body: str, does: str = "") -> str:
        """What somebody says, without secrets, and by whom."""
        said = unhidden(redactor(self.loaded).clean(body))
        who = f"{quiet(self.says)} {does}, and" if does else f"By {quiet(self.says)}, who"
        by = "" if self.is_own else f"*{who} has no token of their own here.*"
        return "\n\n".join(filter(None, [by, said]))


def pull_of(
    loaded: Loaded,
    rows: Rows,
    change: Change,
    *,
    user: str = "",
    name: str = "",
    asked: Asked = NEVER_BEFORE,
) -> Pull | None:
    """The pull request that a change is; None for one that is not. `user` is for whom, and `name` who that is
    to people."""
    if change.forge != "github" or not change.number:
        return None
    forge = forges.need_forge(loaded, change.repository, user=user)
    is_own = forges.has_own_token(loaded, change.repository, user)
    return Pull(loaded, rows, change, forge, user, name, is_own, asked)


async def is_open_there(loaded: Loaded, rows: Rows, change: Change, *, user: str = "") -> bool:
    """Whether a pull request that was noted as closed was opened again."""
    pull = pull_of(loaded, rows, change, user=user)
    return pull is not None and (await pull.forge.pull(pull.number)).state == "open"


async def as_it_is_there(loaded: Loaded, rows: Rows, change: Change, *, user: str = "") -> Change:
    """A change that is to be spoken about: one that was noted as closed may be open again."""
    if change.state != "closed":
        return change
    is_open = partial(is_open_there, loaded, rows, user=user)
    async with settling(loaded, rows, change, is_open) as now:
        return now


async def noted(loaded: Loaded, rows: Rows, change: Change) -> Change:
    """A change that is only looked at: one that was merged or closed there is so here, too.

    A forge that does not say so soon, or refuses to, leaves it as it was known.
    """
    if change.state != "open":
        return change
    changes = Changes(rows)
    try:
        async with asyncio.timeout(LOOK_S):
            pull = pull_of(loaded, rows, change)
            there = await pull.forge.pull(pull.number) if pull else None
            if there is None or there.state == "open":
                return change
            async with settling(loaded, rows, change) as now:  # who merges it right now notes that first
                await changes.end(now, there.state, merged_commit=there.merged_commit)
    except (HutchError, TimeoutError, OSError) as error:
        logger.debug("not_looked_up", change=change.id, error=redactor(loaded).clean(str(error)))
    return await changes.find(change.id)


def _not_shown(comment: Comment, found: FilePatch | None, url: str) -> str:
    path = plain(comment.path)[:200]
    if found is None:
        return f"The pull request does not touch '{path}'. Name a file of its diff, or say it below it: {url}"
    ranges = [f"{each.start} to {each.stop - 1}" for each in found.shown[comment.side] if each]
    more = f" and {len(ranges) - SHOWN_RANGES} more" if len(ranges) > SHOWN_RANGES else ""
    lines = ", ".join(ranges[:SHOWN_RANGES]) + more if ranges else "none"
    return (
        f"GitHub takes comments on lines that a diff shows, and of '{path}' it does not show line "
        f"{comment.line}. It shows {lines}. Choose one of these, or say it below the pull request: {url}"
    )
