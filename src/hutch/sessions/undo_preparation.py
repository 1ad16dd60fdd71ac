"""Finds what an undo or redo takes back, and reads it from the snapshots. Changes nothing."""

from collections.abc import Awaitable, Callable, Sequence

from hutch.domain.errors import Conflict
from hutch.domain.events import Entry
from hutch.domain.inputs import Redo, Undo
from hutch.sessions.changes_to_undo import UndoTarget, find_last_run, find_last_undo
from hutch.sessions.step_changes_to_undo import find_step
from hutch.sessions.undo import Clean, FileUndo
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.file_reads_and_changes import CheckPath
from hutch.workspace.workspace import Workspace

ReadEntries = Callable[[], Awaitable[Sequence[Entry]]]


@dataclass(frozen=True, slots=True)
class PreparedUndo:
    """An undo that can be checked or performed."""

    target: UndoTarget
    files: FileUndo
    snapshot: int  # of the current files

    async def check(self) -> None:
        """Raise if it meets changes by others."""
        await self.files.check(self.snapshot)

    async def check_paths(self) -> None:
        """Raise if it concerns files that the user may not change."""
        await self.files.check_paths(self.snapshot)


async def prepare_undo(
    workspace: Workspace,
    asked: Undo | Redo,
    read_entries: ReadEntries,
    *,
    rows: Rows,
    clean: Clean,
    check: CheckPath | None,
) -> PreparedUndo:
    """Prepare an undo of the current files; refuse one that is impossible."""
    number = (await workspace.snapshot("before an undo")).id
    entries = await read_entries()  # after the snapshot, which may have recorded changes
    target = _find_target(entries, asked)
    names = {str(user.id): user.name for user in await Users(rows).list()}
    files = FileUndo(workspace, target, entries, clean=clean, names=names, check=check)
    await files.prepare()
    return PreparedUndo(target, files, number)


def _find_target(entries: Sequence[Entry], asked: Undo | Redo) -> UndoTarget:
    if isinstance(asked, Redo):
        return find_last_undo(entries)
    found = find_step(entries, asked.step) if asked.step else find_last_run(entries)
    if found is None:
        raise Conflict(
            "There is no run to undo: none was started, or all were undone already. To undo another change, "
            "name its event as `step`."
        )
    return found
