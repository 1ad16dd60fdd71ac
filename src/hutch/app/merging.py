"""A change is read, merged and closed where it lies: in a repository of this machine, or on its forge."""

from dataclasses import dataclass
from functools import partial

from hutch.app.changes import jail_for, settling
from hutch.app.pulls import is_open_there, pull_of
from hutch.app.settler import Settler
from hutch.domain.change import Change
from hutch.flows import review
from hutch.flows.review import Strategy
from hutch.settings import Loaded
from hutch.store.changes import Changes
from hutch.store.rows import Rows


@dataclass(frozen=True, slots=True)
class MergedChange:
    """What came of merging."""

    change: Change
    commit: str  # that the base is at now; empty where the forge did not tell
    branch_stays: str  # why the change's own branch was not deleted; empty when it was
    overridden: list[str]  # what spoke against it


async def diff(loaded: Loaded, rows: Rows, change: Change, *, user: str = "") -> bytes:
    """A change as a patch; a pull request as it is now."""
    if pull := pull_of(loaded, rows, change, user=user):
        return await pull.forge.diff(change.number)
    return await review.diff(change, jail_for(loaded, rows, change))


async def merge(
    loaded: Loaded,
    rows: Rows,
    found: Change,
    *,
    strategy: Strategy | None,
    force: bool,
    author: str,
    user: str = "",
    by: Settler | None = None,
) -> MergedChange:
    """Bring a change into its base branch, unless its tests or somebody speak against that."""
    by = by or Settler(rows)
    is_open = partial(is_open_there, loaded, rows, user=user)
    async with settling(loaded, rows, found, is_open) as change:
        if pull := pull_of(loaded, rows, change, user=user):
            merged, overridden = await pull.merge(strategy=strategy, force=force, by=by)
        else:
            overridden = await review.must_be_fit(rows, change, force=force)
            if overridden:
                await by.insist(change, overridden)
            open_jail = jail_for(loaded, rows, change)
            merged = await review.merge(change, open_jail, strategy=strategy, author=author)
        await Changes(rows).end(change, "merged", merged_commit=merged.commit)
        await by.note("change.merged", change, "; ".join(overridden))
    return MergedChange(change, merged.commit, merged.branch_stays, overridden)


async def close(
    loaded: Loaded, rows: Rows, found: Change, *, user: str = "", by: Settler | None = None
) -> str:
    """Close a change and delete its branch; why that stays, if it does."""
    is_open = partial(is_open_there, loaded, rows, user=user)
    async with settling(loaded, rows, found, is_open) as change:
        stays = ""
        if pull := pull_of(loaded, rows, change, user=user):
            stays = await pull.close()
        else:
            await review.delete_branch(change, jail_for(loaded, rows, change))
        await Changes(rows).end(change, "closed")
        await (by or Settler(rows)).note("change.closed", change)
    return stays
