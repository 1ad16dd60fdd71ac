"""Stores the agent's reviews and posts each once at its pull request."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, TypeVar

from hutch.domain.errors import Conflict, HutchError, Unavailable
from hutch.domain.events import ReviewSubmitted
from hutch.domain.review import Remark, Review
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.reviews import reviewing_agent
from hutch.flows.reviews.review_subject import Subject, pull_request
from hutch.forge.interface import SETTLE_DELAY_S, Statement
from hutch.store.comments_and_reviews import Reviews
from hutch.system.clock_without_jumps import remaining_s, wall_ms
from hutch.system.task_cancellation import cancel_and_wait

T = TypeVar("T")


@asynccontextmanager
async def first_of(
    context: ChangeContext,
    subject: Subject,
    *,
    again: bool,
    user: str = "",
    may_see: Callable[[str], Awaitable[bool]],
) -> AsyncIterator[None]:
    """Start the only review of a pull request at this commit; refuse if there is one, or one in progress.

    The refusal names the session of that review only to callers that may see it.
    """
    async with context.lock("reviews"):
        at = f"{subject.pull_url} at {subject.commit[:12]}"
        names = list(filter(None, (subject.pull_url, subject.change_id)))
        if not again and (session_id := await Reviews(context.rows).find_in_progress(names, subject.commit)):
            where = f", in the session {session_id}" if await may_see(session_id) else ""
            raise Conflict(f"{at} is being reviewed{where}. Use `again` to review it again.")
        if not again and (before := await find_existing_review(context, subject, user=user)):
            raise Conflict(f"{at} was reviewed already: {before.url}. Use `again` to review it again.")
        yield


async def find_existing_review(context: ChangeContext, subject: Subject, *, user: str = "") -> Review | None:
    """The agent's review of a pull request at this commit, even if a killed process did not record it."""
    async with _posting(context, subject):
        return await _given_before(context, subject, user)


async def _given_before(
    context: ChangeContext, subject: Subject, user: str, *, but: str = ""
) -> Review | None:
    reviews = Reviews(context.rows)
    if found := await reviews.of_pull(subject.pull_url, subject.commit, subject.change_id):
        return found
    for tried in await reviews.pending(subject.pull_url, subject.commit):
        if tried.run_id == but:
            continue
        await asyncio.sleep(remaining_s(tried.created_ms, SETTLE_DELAY_S, wall_ms()))
        pull = pull_request(subject.pull_url)
        forge = await context.forge_of(pull, user)
        if (url := await forge.find(pull, tried)) is not None:
            found = await reviews.mark_posted(tried, url)
            if subject.change_id in ("", found.change_id):
                return found
        else:
            await reviews.delete(tried)
    return None


@asynccontextmanager
async def _posting(context: ChangeContext, subject: Subject) -> AsyncIterator[None]:
    """Lock the reviews of a commit, so that only one process of this installation posts one.

    All commits share 256 locks, since each lock is a file that is never deleted.
    """
    about = f"{subject.pull_url} {subject.commit}"
    async with context.lock(f"review-{hashlib.sha256(about.encode()).hexdigest()[:2]}"):
        yield


async def keep(
    context: ChangeContext,
    subject: Subject,
    review: Review,
    remarks: Sequence[Remark],
    *,
    user: str = "",
    once: bool = False,
) -> Review:
    """Store a review and post it at the change. A review that the run has posted already stays unchanged.

    With `once`, another run's review of the same commit also stays.
    """
    reviews = Reviews(context.rows)
    kept = reviewing_agent.comments_of(review, remarks) if review.change_id else []
    if not subject.pull_url:
        return await reviews.add(review, kept)
    async with _posting(context, subject):
        if once and (before := await _given_before(context, subject, user, but=review.run_id)):
            return before
        # Recorded first: after a crash, the next process knows what to search for.
        noted = await reviews.add(replace(review, created_ms=wall_ms()), kept)
        if not noted.is_pending:
            return noted
        try:
            pull = pull_request(subject.pull_url)
            statement = Statement(content=noted, remarks=tuple(remarks), patch=subject.patch)
            url = await (await context.forge_of(pull, user)).post(pull, statement)
        except Unavailable:  # it may have been posted, or may appear later
            raise
        except HutchError:
            await reviews.delete(noted)
            raise
        return await reviews.mark_posted(noted, url)


async def finish_despite_cancel(
    work: Coroutine[Any, Any, T], *, unless: Callable[[], bool] = lambda: False
) -> T:
    """Finish work that others can see even if cancelled, so that it is recorded; `unless` it is resumed."""
    task = asyncio.ensure_future(work)
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            if unless():
                await cancel_and_wait(task)
                raise
            if this := asyncio.current_task():
                this.uncancel()
    return task.result()


def given(review: Review, remarks: Sequence[Remark]) -> ReviewSubmitted:
    """The event of a review."""
    found = reviewing_agent.counts(remarks)
    return ReviewSubmitted(
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
