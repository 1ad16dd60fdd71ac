"""What people say about a change: comments on its lines, approval, or that something must change first."""

import asyncio
from collections.abc import Awaitable, Callable

from hutch.domain.change import Change
from hutch.domain.errors import BadRequest, Conflict, HutchError
from hutch.domain.ids import new_comment_id, new_review_id
from hutch.domain.patch import parse_patch
from hutch.domain.printable import echo
from hutch.domain.review import Comment, Remark, Review, Verdict
from hutch.flows import repository_git, review
from hutch.flows.commit_text import plain
from hutch.flows.repository_git import OpenJail
from hutch.store.comments import Comments, Reviews
from hutch.store.rows import Also, Rows
from hutch.system.clock import wall_ms


async def add(
    rows: Rows,
    change: Change,
    remark: Remark,
    *,
    author: str,
    open_jail: OpenJail,
    commit: str = "",
    post: Callable[[Comment], Awaitable[object]] | None = None,
    also: Also[Comment] | None = None,
) -> Comment:
    """Say something about a line, which must be one that the change shows or the file has. `post` says it
    where the change is, if that is not here, and knows which lines there are."""
    _must_be_current(change, commit)
    if not plain(remark.body):
        raise BadRequest("The comment says nothing.")
    comment = made(remark, change.id, change.commit, author)
    await (post(comment) if post else _check_place(change, remark, open_jail))
    await Comments(rows).add(comment, also)
    return comment


async def judge(
    rows: Rows,
    change: Change,
    verdict: Verdict,
    *,
    author: str,
    body: str = "",
    commit: str = "",
    post: Callable[[Review], Awaitable[Review]] | None = None,
    also: Also[Review] | None = None,
) -> Review:
    """Approve a change, or ask for something else first: by whom, when, and at which commit. `post` says it
    where the change is, if that is not here."""
    _must_be_current(change, commit)
    if change.state != "open":
        raise Conflict(f"The change {change.id} is {change.state} already.")
    if verdict == "changes_requested" and not plain(body):
        raise BadRequest("Say what is to be changed.")
    given = Review(
        id=new_review_id(),
        change_id=change.id,
        author=author,
        verdict=verdict,
        body=plain(body),
        commit=change.commit,
        created_ms=wall_ms(),
    )
    return await Reviews(rows).add(await post(given) if post else given, [], also)


def made(remark: Remark, change_id: str, commit: str, author: str, review_id: str = "") -> Comment:
    """A remark as it is kept."""
    return Comment(
        id=new_comment_id(),
        change_id=change_id,
        review_id=review_id,
        author=author,
        path=remark.path,
        line=remark.line,
        side=remark.side,
        severity=remark.severity or "",
        body=plain(remark.body),
        commit=commit,
        created_ms=wall_ms(),
    )


async def _check_place(change: Change, remark: Remark, open_jail: OpenJail) -> None:
    patch = await asyncio.to_thread(parse_patch, await review.diff(change, open_jail))
    if patch.shows(remark.path, remark.side, remark.line):
        return
    commit = change.commit if remark.side == "new" else change.base_commit
    lines = await _length(change, f"{commit}:{remark.path}", open_jail)
    if lines is None:
        raise BadRequest(f"There is no file {echo(remark.path, 200)} in the change. Name one of the diff.")
    if remark.line > lines:
        raise BadRequest(f"{echo(remark.path, 200)} has {lines} lines, and not {remark.line}.")


async def _length(change: Change, name: str, open_jail: OpenJail) -> int | None:
    """How many lines a file of a commit has; None when there is no such file."""
    if "\x00" in name:
        return None
    try:
        name.encode()
    except UnicodeEncodeError:
        return None
    async with review.reviewing(change, open_jail) as jail:
        ran = await repository_git.attempt(jail, "cat-file", "blob", name)
    if ran.exit_code != 0:
        return None
    if ran.truncated:
        raise _too_large(name)
    return ran.stdout.count(b"\n") + (not ran.stdout.endswith(b"\n") and ran.stdout != b"")


def _too_large(name: str) -> HutchError:
    return BadRequest(f"{name.partition(':')[2][:200]!r} is too large to be commented on.")


def _must_be_current(change: Change, commit: str) -> None:
    if commit and commit != change.commit:
        raise Conflict(
            f"The change {change.id} is at {change.commit[:12]} now, and not at {commit[:12]}. Look again."
        )
