"""What is said about changes and pull requests, and where that is kept or posted."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from hutch.app import forges
from hutch.app.changes import jail_for, one_at_a_time
from hutch.app.pulls import NEVER_BEFORE, Asked, as_it_is_there, pull_of
from hutch.app.settler import Settler
from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, HutchError, NotFound, Unavailable
from hutch.domain.events import ReviewGiven
from hutch.domain.patch import Patch
from hutch.domain.review import Comment, Remark, Review, Verdict
from hutch.flows import ai_review, comments, review
from hutch.flows.ai_review import Subject, parse_pull_url
from hutch.flows.commit_text import one_line
from hutch.flows.forge_text import OWN, quiet
from hutch.forge import seam as forge
from hutch.forge.repo_url import parse_repo_url
from hutch.settings import Loaded
from hutch.store.changes import Changes
from hutch.store.comments import Reviews
from hutch.store.rows import Also, Rows
from hutch.system.clock import remaining_s, wall_ms

TRIES = 3
T = TypeVar("T")


async def subject_of(
    loaded: Loaded, rows: Rows, target: str, *, user: str = "", commit: str = ""
) -> tuple[str, Subject]:
    """What is to be reviewed, by a change's name or a pull request's address, and its repository.

    With `commit`, as it was then. Of a pull request that is elsewhere by now, that alone can be told. By its
    address it is nobody's change: who may speak about the one that it is names that, see `change_at`.
    """
    if "://" in target:
        ours = await change_at(rows, target)
        return await _of_pull(loaded, _address(ours) if ours else target, user, commit)
    change = await Changes(rows).find(target)
    if change.forge == "github" and change.number:
        repository, subject = await _of_pull(loaded, _address(change), user, commit)
        return repository, replace(subject, change_id=change.id)
    change = replace(change, commit=commit or change.commit)
    subject = Subject(
        change_id=change.id,
        title=change.title,
        body=change.body,
        base=change.base,
        base_commit=change.base_commit,
        commit=change.commit,
        diff=await review.diff(change, jail_for(loaded, rows, change)),
    )
    return change.repository, subject


async def change_at(rows: Rows, url: str) -> Change | None:
    """The newest change that a pull request is, however its address is spelled."""
    repository, number = parse_pull_url(url)
    ours = await Changes(rows).of_number(number)
    place = _place(repository)
    exactly = (each for each in ours if _place(each.repository) == place)
    called = (each for each in ours if each.web_url.partition("://")[2].lower() == f"{place}/pull/{number}")
    return next(exactly, None) or next(called, None)


def _place(repository: str) -> str:
    """A repository's address as it is compared."""
    return forges.web_address(repository).partition("://")[2].lower()


def _address(change: Change) -> str:
    """Of a pull request of ours, by where it was pushed to: what a forge calls itself may lack the port."""
    return f"{forges.web_address(change.repository)}/pull/{change.number}"


async def _of_pull(loaded: Loaded, url: str, user: str, commit: str) -> tuple[str, Subject]:
    repository, number = parse_pull_url(url)
    repository = parse_repo_url(repository).shown.removesuffix(".git").lower()  # one spelling of many
    there = forges.need_forge(loaded, repository, user=user)
    pull, diff = await there.pull(number), b""
    for _ in range(TRIES):
        if commit not in ("", pull.commit):
            break
        diff, before = await there.diff(number), pull
        pull = await there.pull(number)
        if pull.commit == before.commit:
            break
    else:
        raise Conflict(f"{repository}/pull/{number} is pushed to all the time. Try again later.")
    moved = commit not in ("", pull.commit)
    subject = Subject(
        pull_url=f"{repository}/pull/{number}",
        title=pull.title,
        body=pull.body,
        base=pull.base,
        base_commit=pull.base_commit,
        commit=commit or pull.commit,
        diff=b"" if moved else diff,
        moved_to=pull.commit if moved else "",
    )
    return repository, subject


@asynccontextmanager
async def first_of(
    loaded: Loaded,
    rows: Rows,
    subject: Subject,
    *,
    again: bool,
    user: str = "",
    may_see: Callable[[str], Awaitable[bool]],
) -> AsyncIterator[None]:
    """For who begins a review of a pull request: nobody has at this commit, nor does meanwhile.

    The session in which somebody does is told only to who may see it.
    """
    async with one_at_a_time(loaded, "reviews"):
        at = f"{subject.pull_url} at {subject.commit[:12]}"
        names = list(filter(None, (subject.pull_url, subject.change_id)))
        if not again and (session_id := await Reviews(rows).under_way(names, subject.commit)):
            where = f", in the session {session_id}" if await may_see(session_id) else ""
            raise Conflict(f"{at} is being reviewed{where}. Say `again` to have it read once more.")
        if not again and (before := await given_before(loaded, rows, subject, user=user)):
            raise Conflict(f"{at} was reviewed already: {before.url}. Say `again` to have it read once more.")
        yield


async def given_before(loaded: Loaded, rows: Rows, subject: Subject, *, user: str = "") -> Review | None:
    """The agent's review of a pull request at this commit, also by who was killed before it was noted."""
    async with _posting(loaded, subject):
        return await _given_before(loaded, rows, subject, user)


async def _given_before(
    loaded: Loaded, rows: Rows, subject: Subject, user: str, *, but: str = ""
) -> Review | None:
    reviews = Reviews(rows)
    if found := await reviews.of_pull(subject.pull_url, subject.commit, subject.change_id):
        return found
    repository, number = parse_pull_url(subject.pull_url)
    for tried in await reviews.pending(subject.pull_url, subject.commit):
        if tried.run_id == but:
            continue
        await asyncio.sleep(remaining_s(tried.created_ms, forge.SETTLE_S, wall_ms()))
        there = forges.need_forge(loaded, repository, user=user)
        if posted := await there.find(number, _marker(tried), among="reviews"):
            found = await reviews.posted(tried, posted.url)
            if subject.change_id in ("", found.change_id):
                return found
        else:
            await reviews.drop(tried)
    return None


@asynccontextmanager
async def _posting(loaded: Loaded, subject: Subject) -> AsyncIterator[None]:
    """Nobody else of this installation posts a review of the same commit meanwhile.

    There are 256 locks for all: each is a file that stays.
    """
    about = f"{subject.pull_url} {subject.commit}"
    async with one_at_a_time(loaded, f"review-{hashlib.sha256(about.encode()).hexdigest()[:2]}"):
        yield


async def keep(
    loaded: Loaded,
    rows: Rows,
    subject: Subject,
    review: Review,
    remarks: Sequence[Remark],
    *,
    user: str = "",
    once: bool = False,
) -> Review:
    """Keep a review, and post it where the change is; what a run has given already stays as it is.

    With `once`, one of the same commit that another run has given stays as well.
    """
    reviews = Reviews(rows)
    kept = ai_review.comments_of(review, remarks) if review.change_id else []
    if not subject.pull_url:
        return await reviews.add(review, kept)
    async with _posting(loaded, subject):
        if once and (before := await _given_before(loaded, rows, subject, user, but=review.run_id)):
            return before
        # Noted first: who comes after a kill knows what to look for.
        noted = await reviews.add(replace(review, created_ms=wall_ms()), kept)
        if not noted.is_pending:
            return noted
        try:
            posted = await _post(loaded, subject, noted, remarks, user)
        except Unavailable:  # it may be there all the same, or come to be
            raise
        except HutchError:
            await reviews.drop(noted)
            raise
        return await reviews.posted(noted, posted.url)


async def seen_through(work: Coroutine[Any, Any, T], *, unless: Callable[[], bool] = lambda: False) -> T:
    """What others can see must be known here, too: who is stopped meanwhile goes on to the end of it, unless
    somebody takes it up again."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if unless():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                raise
            if this := asyncio.current_task():
                this.uncancel()
    return task.result()


async def comment(
    loaded: Loaded,
    rows: Rows,
    change: Change,
    remark: Remark,
    *,
    author: str,
    user: str = "",
    name: str = "",
    commit: str = "",
    asked: Asked = NEVER_BEFORE,
    also: Also[Comment] | None = None,
) -> tuple[Comment, str]:
    """Say something about a line of a change, where it is; and where that can be read, if not here."""
    url = ""

    async def post(made: Comment) -> None:
        nonlocal url
        assert pull is not None
        url = (await pull.comment(made)).url

    change = await as_it_is_there(loaded, rows, change, user=user)
    pull = pull_of(loaded, rows, change, user=user, name=name, asked=asked)
    made = await comments.add(
        rows,
        change,
        remark,
        author=author,
        open_jail=jail_for(loaded, rows, change),
        commit=commit,
        post=post if pull else None,
        also=also,
    )
    return made, url


async def judge(
    loaded: Loaded,
    rows: Rows,
    change: Change,
    verdict: Verdict,
    *,
    author: str,
    body: str = "",
    user: str = "",
    name: str = "",
    commit: str = "",
    by: Settler | None = None,
    asked: Asked = NEVER_BEFORE,
    also: Also[Review] | None = None,
) -> Review:
    """Approve a change, or ask for something else first, where it is."""
    change = await as_it_is_there(loaded, rows, change, user=user)
    pull = pull_of(loaded, rows, change, user=user, name=name, asked=asked)
    said = {"author": author, "body": body, "commit": commit}
    post = pull.judge if pull else None
    told = await comments.judge(rows, change, verdict, **said, post=post, also=also)
    await (by or Settler(rows)).note(f"change.{verdict}", change, f"at {told.commit[:12]}")
    return told


def given(review: Review, remarks: Sequence[Remark]) -> ReviewGiven:
    """The event of a review."""
    found = ai_review.counts(remarks)
    return ReviewGiven(
        run_id=review.run_id,
        verdict=review.verdict,
        title=review.title,
        commit=review.commit,
        blockers=found["blocker"],
        shoulds=found["should"],
        coulds=found["could"],
        change_id=review.change_id,
        url=review.url,
    )


async def _post(
    loaded: Loaded, subject: Subject, review: Review, remarks: Sequence[Remark], user: str
) -> forge.Posted:
    """On the forge: as one review. What it does not take on a line is said in the text."""
    repository, number = parse_pull_url(subject.pull_url)
    there = forges.need_forge(loaded, repository, user=user)
    marker = _marker(review)
    if found := await there.find(number, marker, among="reviews"):
        return found  # by somebody who was killed right after it
    patch = subject.patch
    on_lines = [remark for remark in remarks if patch.shows(remark.path, "new", remark.line)]
    try:
        return await there.review(number, _worded(review, remarks, on_lines, patch))
    except NotFound:
        raise
    except Unavailable:  # the answer may be all that was lost
        if found := await there.find(number, marker, among="reviews"):
            return found
        raise
    except BadRequest:
        if not on_lines:
            raise
    return await there.review(number, _worded(review, remarks, [], patch))


def _marker(review: Review) -> str:
    """By which a review is found again, and which nobody can know before it is there."""
    return f"<!-- hutch-review {review.run_id} -->"


def _worded(
    review: Review, remarks: Sequence[Remark], on_lines: Sequence[Remark], patch: Patch
) -> forge.Review:
    rest = [remark for remark in remarks if remark not in on_lines]
    parts = [f"**{quiet(review.title)}**", quiet(review.body)]
    parts += [
        f"`{_name(remark.path)}:{remark.line}` **{remark.severity}**: {quiet(remark.body)}" for remark in rest
    ]
    parts.append(f"{OWN}{_marker(review)}")
    lines = tuple(
        forge.LineComment(
            path=remark.path, line=remark.line, body=f"**{remark.severity}**: {quiet(remark.body)}\n{OWN}"
        )
        for remark in on_lines
    )
    # A remark, whatever was found: an agent neither approves nor blocks what people decide about.
    return forge.Review(commit=review.commit, body="\n\n".join(filter(None, parts)), comments=lines)


def _name(path: str) -> str:
    """A file's name, which may hold anything, inside of a code span."""
    return quiet(one_line(path.replace("`", "")))
