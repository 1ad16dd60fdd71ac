"""Reads, merges and closes a change at its forge."""

import asyncio
from collections.abc import Collection

import structlog

from hutch.domain.commit_text import one_line
from hutch.domain.errors import Conflict, HutchError
from hutch.domain.proposed_change import Change
from hutch.domain.review import AGENT
from hutch.flows.change_decision_audit import Decider
from hutch.flows.change_decision_lock import hold_open, recording_closure
from hutch.flows.change_flow_services import ChangeContext
from hutch.flows.change_review_state import is_undone, last_verdicts
from hutch.forge.interface import Merge, Objections, Strategy
from hutch.store.comments_and_reviews import Reviews
from hutch.store.proposed_changes import Changes
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass

UNDONE = "its run was undone in the session"
MAX_REQUEST_CHARS = 200  # of a reviewer's request
REFRESH_TIMEOUT_S = 3.0  # for a forge to answer, when a change is only shown
logger = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class MergedChange:
    """The result of a merge."""

    change: Change
    commit: str  # that the base is at now; empty where the forge does not say
    branch_stays: str  # why the change's own branch was not deleted; empty when it was
    overridden: list[str]  # objections


async def diff(context: ChangeContext, change: Change, *, user: str = "") -> bytes:
    """A change as a patch; a pull request in its current state."""
    return await (await context.forge_of(change, user)).diff(change)


async def merge(
    context: ChangeContext,
    found: Change,
    *,
    strategy: Strategy | None,
    force: bool,
    author: str,
    user: str = "",
    by: Decider | None = None,
) -> MergedChange:
    """Merge a change into its base branch, unless its tests or reviewers object, or its run was undone."""
    by = by or Decider(context.rows)
    overridden: list[str] = []
    async with hold_open(context, found, user=user) as change, recording_closure(context, change):

        async def consent(there: Objections) -> None:
            against = [*await objections(context, change, there.verdict_urls), *there.reasons]
            if against and not force:
                raise Conflict(
                    f"The change {change.id} is not merged: {'; '.join(against)}. Fix it and have it "
                    f"approved, or merge it anyway: hutch changes merge {change.id} --force, or "
                    '"force": true over the API.'
                )
            if against:
                await by.insist(change, against, refused=there.force_refusal)
            overridden.extend(against)

        forge = await context.forge_of(change, user)
        merged = await forge.merge(change, Merge(author, strategy, consent))
        await Changes(context.rows).end(change, "merged", merged_commit=merged.commit)
        await by.note("change.merged", change, "; ".join(overridden))
    return MergedChange(change, merged.commit, merged.branch_stays, overridden)


async def close(context: ChangeContext, found: Change, *, user: str = "", by: Decider | None = None) -> str:
    """Close a change and delete its branch. Returns why, if the branch remains."""
    async with hold_open(context, found, user=user) as change:
        forge = await context.forge_of(change, user)
        standing = await forge.read(change)
        if standing.state == "merged":  # a forge refuses to close a merged change
            merged_commit = standing.merged_commit
            await Changes(context.rows).end(change, "merged", merged_commit=merged_commit)
        stays = await forge.close(change)
        await Changes(context.rows).end(change, "closed")
        await (by or Decider(context.rows)).note("change.closed", change)
    return stays


async def refresh(context: ChangeContext, change: Change) -> Change:
    """Mirror a merge or close at the forge locally, before a change is displayed.

    If the forge fails or does not answer in time, the stored state is used.
    """
    if change.state != "open":
        return change
    changes = Changes(context.rows)
    try:
        async with asyncio.timeout(REFRESH_TIMEOUT_S):
            there = await (await context.forge_of(change)).read(change)
            if there.state == "open":
                return change
            async with hold_open(context, change, reopens=False) as now:  # after a merge in progress
                await changes.end(now, there.state, merged_commit=there.merged_commit)
    except (HutchError, TimeoutError, OSError) as error:
        logger.debug("not_looked_up", change=change.id, error=context.redactor.redact(str(error)))
    return await changes.find(change.id)


async def objections(context: ChangeContext, change: Change, there: Collection[str] = ()) -> list[str]:
    """The objections to a merge: failing tests, users who asked for changes and have not approved since, and
    a run that was undone.

    A later commit does not settle a request: its author decides that. The agent never approves; it settles
    its own request with a later review without blockers. `there` are the addresses of verdicts that count at
    the forge instead of here, because their authors may withdraw them there.
    """
    rows = context.rows
    found = [f"its tests fail ({change.tests})"] if change.tests_fail else []
    if change.session_id in await Changes(rows).rewound_sessions([change.session_id]):
        found += [UNDONE] if await is_undone(context.log, change) else []
    last = last_verdicts(await Reviews(rows).of_change(change.id))
    asked = [given for given in last if given.verdict == "changes_requested"]
    asked = [given for given in asked if given.author == AGENT or given.url not in there]
    names = {str(user.id): user.name for user in await Users(rows).list()} if asked else {}
    for given in asked:
        who = "the agent's review" if given.author == AGENT else names.get(given.author, given.author)
        text = given.title or given.body
        what = one_line(text)[:MAX_REQUEST_CHARS] if text else ""
        found.append(f"{who} asked for changes at {given.commit[:12]}" + (f": {what}" if what else ""))
    return found
