"""The changes that a piece of work on files has made, from its result."""

from hutch.edit.edit_result import EditResult
from hutch.edit.file_operation_types import Announcement, FileChange
from hutch.snapshots.ignore_rules import GITIGNORE
from hutch.snapshots.path_version_restore import PutResult


def announced_by(result: object, of_files: Announcement) -> Announcement:
    """The changes of a result; `of_files` has the real paths and contents, if single files were changed."""
    if of_files.changes:
        return of_files
    match result:
        case PutResult(changes=changes, written=written):
            return Announcement(changes, written)
        case FileChange():
            return Announcement([result])
        case EditResult(changes=changes):
            return Announcement(changes)
        case [*changes]:
            return Announcement([each for each in changes if isinstance(each, FileChange)])
    return Announcement()


def are_plain_writes(announced: Announcement) -> bool:
    """True if nothing was moved or deleted, and no rule about other files was changed."""
    return all(
        change.path in announced.written
        and change.moved_from is None
        and change.path.rpartition("/")[2] != GITIGNORE
        for change in announced.changes
    )
