"""Serializes decisions about the changes of one repository, across all processes."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from hutch.domain.errors import Conflict
from hutch.domain.proposed_change import Change
from hutch.flows.change_flow_services import ChangeContext
from hutch.forge.interface import ClosedOnForge
from hutch.store.proposed_changes import Changes


@asynccontextmanager
async def hold_open(
    context: ChangeContext, change: Change, *, user: str = "", reopens: bool = True
) -> AsyncIterator[Change]:
    """Lock an open change: no other caller merges or closes a change of its repository in the meantime.

    A decision holds this lock from the first read of the change until it is recorded. With `reopens`, a
    change that is closed here but open at its forge counts as open.
    """
    name = hashlib.sha256(change.repository.encode(errors="surrogateescape")).hexdigest()[:24]
    async with context.lock(name):
        changes = Changes(context.rows)
        now = await changes.find(change.id)
        if now.state == "closed" and reopens:
            forge = await context.forge_of(now, user)
            if (await forge.read(now)).state == "open":
                now = await changes.reopen(now)
        if now.state != "open":
            raise Conflict(f"The change {now.id} is {now.state} already.")
        yield now


async def reopened(context: ChangeContext, change: Change, user: str) -> Change:
    """A change before a comment or review. If it is closed here but open at its forge, it is reopened."""
    if change.state != "closed":
        return change
    async with hold_open(context, change, user=user) as now:
        return now


@asynccontextmanager
async def recording_closure(context: ChangeContext, change: Change) -> AsyncIterator[None]:
    """Close a change here when its forge reports that it is closed."""
    try:
        yield
    except ClosedOnForge:
        if change.state == "open":
            await Changes(context.rows).end(change, "closed")
        raise
