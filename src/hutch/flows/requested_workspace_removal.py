"""Removes workspaces by name, or all unused ones at once. A session loses its files and ends."""

from collections.abc import Sequence
from dataclasses import field

from hutch.domain.errors import Conflict, HutchError
from hutch.flows.session_file_retention import remove_files
from hutch.store.event_log import SqlLog
from hutch.store.idle_session_expiry import IDLE_STATES
from hutch.store.sessions import Sessions
from hutch.system.clock_without_jumps import STEADY
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspaces import Workspaces, session_of_workspace

REASON = "Its workspace was removed by `hutch workspace rm`."
IN_USE = "its session is in use, or work waits in it"


@dataclass(frozen=True, slots=True)
class RemovedWorkspaces:
    """The workspaces that were removed, and why others were not."""

    ids: tuple[str, ...]
    bytes: int = 0
    not_removed: dict[str, str] = field(default_factory=dict)


async def remove_workspaces(log: SqlLog, workspaces: Workspaces, ids: Sequence[str]) -> RemovedWorkspaces:
    """Remove these workspaces."""
    for id in ids:
        if problem := await _remove(log, workspaces, id):
            raise Conflict(f"The workspace '{id}' was not removed: {problem}.")
    return RemovedWorkspaces(tuple(ids))


async def remove_unused_workspaces(log: SqlLog, workspaces: Workspaces, *, age_ms: int) -> RemovedWorkspaces:
    """Remove the workspaces that nobody has used for `age_ms`."""
    now_ms, gone, freed, not_removed = STEADY.now_ms(), [], 0, {}
    for record in await workspaces.records():
        used_ms = await workspaces.last_used_ms(record.id)
        if now_ms - used_ms < age_ms:
            continue
        size = await workspaces.disk_bytes(record.id, now_ms)
        try:
            problem = await _remove(log, workspaces, record.id)
        except HutchError as error:
            problem = str(error)
        if problem:
            not_removed[record.id] = problem
        else:
            gone.append(record.id)
            freed += size
    await workspaces.collect_bases()
    return RemovedWorkspaces(tuple(gone), freed, not_removed)


async def _remove(log: SqlLog, workspaces: Workspaces, id: str) -> str:
    """Remove a workspace; returns why not, if so."""
    session_id = session_of_workspace(id)
    session = (await Sessions(log).get_many([session_id])).get(session_id) if session_id else None
    if session is None or session.workspace_id != id:
        await workspaces.remove(id)
        return ""
    if session.state not in IDLE_STATES:
        return IN_USE
    return "" if await remove_files(log, log, workspaces.remove, session, REASON) else IN_USE
