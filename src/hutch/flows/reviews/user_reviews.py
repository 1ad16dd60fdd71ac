"""Reviews of a change by users: comments on its lines, approval, or a request for changes."""

from dataclasses import replace

from hutch.domain.commit_text import strip_controls
from hutch.domain.errors import BadRequest, Conflict
from hutch.domain.ids import new_comment_id, new_review_id
from hutch.domain.proposed_change import Change
from hutch.domain.review import Comment, Remark, Review, Verdict
from hutch.flows.change_decision_audit import Decider
from hutch.flows.change_decision_lock import recording_closure, reopened
from hutch.flows.change_flow_services import ChangeContext
from hutch.forge.interface import Attempt, Statement
from hutch.store.comments_and_reviews import Comments, Reviews
from hutch.store.table_access_interface import ExtraWrite
from hutch.system.clock_without_jumps import wall_ms

FIRST = Attempt()


async def comment(
    context: ChangeContext,
    change: Change,
    remark: Remark,
    *,
    author: str,
    user: str = "",
    name: str = "",
    commit: str = "",
    attempt: Attempt = FIRST,
    also: ExtraWrite[Comment] | None = None,
) -> tuple[Comment, str]:
    """Comment on a line of the change, or on a whole file.

    Returns the comment and its URL on the forge (empty if it was not posted there). It is posted on
    behalf of `user`, whose `name` readers see.
    """
    change = await reopened(context, change, user)
    forge = await context.forge_of(change, user)
    _check_current(change, commit)
    if not strip_controls(remark.body):
        raise BadRequest("The comment is empty.")
    made = make_comment(remark, change.id, change.commit, author)
    redacted = replace(made, body=context.redactor.redact(made.body))
    async with recording_closure(context, change):
        url = await forge.post(change, Statement(content=redacted, name=name, attempt=attempt))
    await Comments(context.rows).add(made, also)
    return made, url


async def judge(
    context: ChangeContext,
    change: Change,
    verdict: Verdict,
    *,
    author: str,
    body: str = "",
    user: str = "",
    name: str = "",
    commit: str = "",
    by: Decider | None = None,
    attempt: Attempt = FIRST,
    also: ExtraWrite[Review] | None = None,
) -> Review:
    """Approve a change or ask for changes. The review records its author, time and commit."""
    change = await reopened(context, change, user)
    forge = await context.forge_of(change, user)
    _check_current(change, commit)
    if change.state != "open":
        raise Conflict(f"The change {change.id} is {change.state} already.")
    if verdict == "changes_requested" and not strip_controls(body):
        raise BadRequest("Say what should be changed.")
    given = Review(
        id=new_review_id(),
        change_id=change.id,
        author=author,
        verdict=verdict,
        body=strip_controls(body),
        commit=change.commit,
        created_ms=wall_ms(),
    )
    redacted = replace(given, body=context.redactor.redact(given.body))
    async with recording_closure(context, change):
        url = await forge.post(change, Statement(content=redacted, name=name, attempt=attempt))
    kept = await Reviews(context.rows).add(replace(given, url=url), [], also)
    await (by or Decider(context.rows)).note(f"change.{verdict}", change, f"at {kept.commit[:12]}")
    return kept


def make_comment(remark: Remark, change_id: str, commit: str, author: str, review_id: str = "") -> Comment:
    """A remark as it is stored."""
    return Comment(
        id=new_comment_id(),
        change_id=change_id,
        review_id=review_id,
        author=author,
        path=remark.path,
        line=remark.line,
        side=remark.side,
        severity=remark.severity or "",
        body=strip_controls(remark.body),
        commit=commit,
        created_ms=wall_ms(),
    )


def _check_current(change: Change, commit: str) -> None:
    if commit and commit != change.commit:
        raise Conflict(
            f"The change {change.id} is at {change.commit[:12]} now, not at {commit[:12]}. Read it again."
        )
