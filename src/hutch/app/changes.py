"""What runs did becomes changes: delivered once, written down, and told in the log."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutch.app import forges, jails, models
from hutch.app.repositories import repositories_of
from hutch.domain.change import Change
from hutch.domain.errors import Conflict, NotFound
from hutch.domain.events import ChangeProposed, Event, RanTests
from hutch.flows import delivery
from hutch.flows.repository_git import OpenJail
from hutch.forge.seam import Forge
from hutch.jail.seam import Jail
from hutch.settings import Loaded
from hutch.snapshots.storage import Snapshot
from hutch.store.changes import Changes
from hutch.store.rows import Rows
from hutch.system.file_lock import locked_async
from hutch.workspace.workspace import Workspace

AUTHOR = "Hutch <hutch@localhost>"
REASON_LETTERS = 500  # of why tests could not be run
Append = Callable[[Sequence[Event]], Awaitable[object]]
Look = Callable[[Change], Awaitable[bool]]


@asynccontextmanager
async def repository_jail(loaded: Loaded, path: Path, *, anywhere: bool = True) -> AsyncIterator[Jail]:
    """A jail on a repository of this machine, for git to work in; it reaches no network.

    A linked worktree has its branches in the main repository, so the jail is there. Without `anywhere` the
    repository must be one that members may name. No link in the path is followed: there was none when the
    work began.
    """
    gone = NotFound(f"There is no repository at '{path}' any more.")
    async with AsyncExitStack() as stack:
        try:
            opening = repositories_of(loaded).opened(path, anywhere=anywhere)
            pinned = await stack.enter_async_context(opening)
        except NotFound:
            raise gone from None
        if pinned.layout is None:
            raise gone
        policy = replace(jails.jail_policy(loaded.settings), network=())
        async with jails.open_jail(await asyncio.to_thread(pinned.main), policy) as jail:
            yield jail


def jail_for(loaded: Loaded, rows: Rows, change: Change) -> OpenJail:
    """What opens a jail on the repository of a change, for what the owner of its session may do there."""

    @asynccontextmanager
    async def open_jail(path: Path) -> AsyncIterator[Jail]:
        anywhere = await Changes(rows).is_of_owner(change)
        async with repository_jail(loaded, path, anywhere=anywhere) as jail:
            yield jail

    return open_jail


@asynccontextmanager
async def one_at_a_time(loaded: Loaded, name: str) -> AsyncIterator[None]:
    """Nobody else of this installation does what has this name meanwhile."""
    locks = loaded.paths.data / "locks"
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with locked_async(locks / f"{name}.lock"):
        yield


@asynccontextmanager
async def settling(
    loaded: Loaded, rows: Rows, change: Change, look: Look | None = None
) -> AsyncIterator[Change]:
    """An open change as it is now, while nobody else merges or closes anything of its repository.

    Who decides about it holds this from the first look to the last note, on the command line, too. `look` is
    for one that was noted as closed: whether it is so where it is.
    """
    name = hashlib.sha256(change.repository.encode(errors="surrogateescape")).hexdigest()[:24]
    async with one_at_a_time(loaded, name):
        changes = Changes(rows)
        now = await changes.find(change.id)
        if now.state == "closed" and look is not None and await look(now):
            now = await changes.reopen(now)
        if now.state != "open":
            raise Conflict(f"The change {now.id} is {now.state} already.")
        yield now


async def deliver(
    loaded: Loaded,
    rows: Rows,
    workspace: Workspace,
    proposal: delivery.Proposal,
    *,
    append: Append,
    start: Snapshot,
    last: Snapshot,
    told: Sequence[str] = (),
    address: str = "",
    user: str = "",
    guarded: bool = False,
    account: bool = False,
    on_step: delivery.OnStep = delivery.untold,
) -> Change | None:
    """Put a run's work on a branch of its repository and write that down, whatever of it was done before.

    `told` are the commits that the log knows as proposed. `user` is for whom it is done, `guarded` says that
    only what requests may name is reached, and `account` that even so it may be with what the account that
    runs this has. None if there is nothing to deliver.
    """
    changes = Changes(rows)
    change = await changes.of_run(proposal.run_id)
    if change is None:
        clean = models.redactor(loaded).clean  # what the tests said may be a line that they printed
        describe = proposal.describe
        proposal = replace(proposal, tests=clean(proposal.tests), describe=lambda body: clean(describe(body)))
        named = address or workspace.record.source or ""
        how = {"guarded": guarded, "account": account}
        remote = await forges.reachable(loaded, named, user=user, **how) if named else None
        forge = forges.forge_of(loaded, remote, user=user) if remote else None
        before = await _to_go_on_with(changes, proposal.session_id, workspace.record.source, forge)
        if before is not None and before.run_id > proposal.run_id:
            return before  # a later run has delivered this, too
        change = await delivery.propose(
            workspace,
            last,
            proposal,
            open_jail=partial(repository_jail, loaded, anywhere=account or not guarded),
            start=start,
            address=remote or "",
            forge=forge,
            before=before,
            on_step=on_step,
        )
        if change is None:
            return None
        await (changes.move(change) if before and before.id == change.id else changes.add(change))
    if change.commit not in told:
        event = ChangeProposed(
            change_id=change.id,
            branch=change.branch,
            base=change.base,
            commit=change.commit,
            title=change.title,
            url=change.url,
        )
        await append([event])
    return change


async def _to_go_on_with(
    changes: Changes, session_id: str, repository: str | None, forge: Forge | None
) -> Change | None:
    """The change of a session that is still open, by what its forge says, too."""
    before = await changes.open_of_session(session_id)
    if before is None or before.repository != repository:
        return None
    if forge is not None and before.number:
        pull = await forge.pull(before.number)
        if pull.state != "open":
            await changes.end(before, pull.state)
            return None
    return before


def told_tests(tests: RanTests | None) -> str:
    """What the tests said last, in a line; why, where none of them failed and they did not pass."""
    if tests is None:
        return ""
    counts = count_tests(tests.failed, tests.passed, tests.skipped)
    if tests.ok or tests.failed:
        return counts
    # No sign is taken away without a space in its place: that could make a secret whole.
    why = " ".join("".join(sign if sign.isprintable() else " " for sign in tests.reason).split())
    why = why if len(why) <= REASON_LETTERS else f"{why[: REASON_LETTERS - 1]}…"
    return f"failed as a whole: {why.rstrip('.')}" if why else f"failed as a whole, {counts}"


def count_tests(failed: int, passed: int, skipped: int) -> str:
    """The same, of numbers."""
    counts = {"failed": failed, "passed": passed, "skipped": skipped}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "none were found"
