"""What is said about changes and pull requests, and where that is kept or posted."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from hutch.app import forges
from hutch.app.changes import changes_of, one_at_a_time, repository_jail
from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.domain.events import ReviewGiven
from hutch.domain.patch import Patch
from hutch.domain.review import Comment, Remark, Review, Severity, Verdict
from hutch.flows import ai_review, comments, review
from hutch.flows.ai_review import Subject, parse_pull_url
from hutch.flows.commit_text import one_line
from hutch.flows.forge_text import OWN, quiet
from hutch.flows.repository_git import OpenJail
from hutch.flows.runs import read_log
from hutch.forge import seam as forge
from hutch.forge.repo_url import parse_repo_url
from hutch.settings import Loaded
from hutch.store.comments import Comments, Reviews
from hutch.store.log import open_log
from hutch.store.rows import Rows

__all__ = [
    "Comment",
    "Comments",
    "Remark",
    "Review",
    "Reviews",
    "Severity",
    "Subject",
    "Verdict",
    "ai_review",
    "comments",
    "first_of",
    "given",
    "jail_opener",
    "keep",
    "opened",
    "parse_pull_url",
    "read_log",
    "subject_of",
]

TRIES = 3


@asynccontextmanager
async def opened(loaded: Loaded) -> AsyncIterator[Rows]:
    """The rows of an installation; a server may have them open too."""
    paths = loaded.paths
    async with open_log(paths.database, paths.blobs, paths.signing_key) as log:
        yield log


def jail_opener(loaded: Loaded) -> OpenJail:
    """What opens a jail on a repository of this machine."""
    return lambda path: repository_jail(loaded, path)


async def subject_of(loaded: Loaded, target: str, *, user: str = "", commit: str = "") -> tuple[str, Subject]:
    """What is to be reviewed, by a change's name or a pull request's address, and its repository.

    With `commit`, as it was then. Of a pull request that is elsewhere by now, that alone can be told.
    """
    if "://" in target:
        return await _of_pull(loaded, target, user, commit)
    change = await changes_of(loaded).find(target)
    if change.forge == "github" and change.web_url:
        repository, subject = await _of_pull(loaded, change.web_url, user, commit)
        return repository, replace(subject, change_id=change.id)
    change = replace(change, commit=commit or change.commit)
    subject = Subject(
        change_id=change.id,
        title=change.title,
        body=change.body,
        base=change.base,
        base_commit=change.base_commit,
        commit=change.commit,
        diff=await review.diff(change, jail_opener(loaded)),
    )
    return change.repository, subject


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
async def first_of(loaded: Loaded, rows: Rows, subject: Subject, *, again: bool) -> AsyncIterator[None]:
    """For who begins a review of a pull request: nobody has at this commit, nor does meanwhile."""
    async with one_at_a_time(loaded, "reviews"):
        reviews, at = Reviews(rows), f"{subject.pull_url} at {subject.commit[:12]}"
        if not again and (before := await reviews.of_pull(subject.pull_url, subject.commit)):
            raise Conflict(f"{at} was reviewed already: {before.url}. Say `again` to have it read once more.")
        if not again and (session_id := await reviews.under_way(subject.pull_url, subject.commit)):
            raise Conflict(
                f"{at} is being reviewed, in the session {session_id}. Say `again` to have it read once more."
            )
        yield


async def keep(
    loaded: Loaded, rows: Rows, subject: Subject, review: Review, remarks: Sequence[Remark], *, user: str = ""
) -> Review:
    """Keep a review, and post it where the change is; what a run has given already stays as it is."""
    if there := await Reviews(rows).of_run(review.run_id):
        return there
    if subject.pull_url:
        posted = await _post(loaded, subject, review, remarks, user)
        review = replace(review, url=posted.url)
    kept = ai_review.comments_of(review, remarks) if review.change_id else []
    return await Reviews(rows).add(review, kept)


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
    marker = f"<!-- hutch-review {review.run_id} -->"
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


def _worded(
    review: Review, remarks: Sequence[Remark], on_lines: Sequence[Remark], patch: Patch
) -> forge.Review:
    rest = [remark for remark in remarks if remark not in on_lines]
    parts = [f"**{quiet(review.title)}**", quiet(review.body)]
    parts += [
        f"`{_name(remark.path)}:{remark.line}` **{remark.severity}**: {quiet(remark.body)}" for remark in rest
    ]
    parts.append(f"{OWN}<!-- hutch-review {review.run_id} -->")
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
