"""A change is read, merged and closed where it lies: in a repository of this machine, or on its forge."""

from dataclasses import dataclass

from hutch.app.changes import changes_of, repository_jail, settling
from hutch.app.pulls import pull_of
from hutch.domain.change import Change
from hutch.flows import review
from hutch.flows.review import Strategy
from hutch.settings import Loaded
from hutch.store.rows import Rows

__all__ = ["MergedChange", "Strategy", "close", "diff", "merge"]


@dataclass(frozen=True, slots=True)
class MergedChange:
    """What came of merging."""

    change: Change
    commit: str  # that the base is at now; empty where the forge did not tell
    branch_stays: str  # why the change's own branch was not deleted; empty when it was
    overridden: list[str]  # what spoke against it


async def diff(loaded: Loaded, change: Change, *, user: str = "") -> bytes:
    """A change as a patch; a pull request as it is now."""
    if pull := pull_of(loaded, change, user=user):
        return await pull.forge.diff(change.number)
    return await review.diff(change, lambda path: repository_jail(loaded, path))


async def merge(
    loaded: Loaded,
    rows: Rows,
    found: Change,
    *,
    strategy: Strategy | None,
    force: bool,
    author: str,
    user: str = "",
) -> MergedChange:
    """Bring a change into its base branch, unless its tests or somebody speak against that."""
    async with settling(loaded, found) as change:
        if pull := pull_of(loaded, change, user=user):
            merged, overridden = await pull.merge(rows, strategy=strategy, force=force)
        else:
            overridden = await review.must_be_fit(rows, change, force=force)
            merged = await review.merge(
                change, lambda path: repository_jail(loaded, path), strategy=strategy, author=author
            )
        await changes_of(loaded).end(change, "merged", merged_commit=merged.commit)
    return MergedChange(change, merged.commit, merged.branch_stays, overridden)


async def close(loaded: Loaded, found: Change, *, user: str = "") -> str:
    """Close a change and delete its branch; why that stays, if it does."""
    async with settling(loaded, found) as change:
        stays = ""
        if pull := pull_of(loaded, change, user=user):
            stays = await pull.close()
        else:
            await review.delete_branch(change, lambda path: repository_jail(loaded, path))
        await changes_of(loaded).end(change, "closed")
    return stays
