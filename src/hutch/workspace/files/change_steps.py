"""The steps of a change. Each can be performed, and undone by any process.

The progress of a step is never recorded, but derived from which entry is where. So a
step can be undone twice, by a process that knows only the plan.

New content is in a staging directory, and replaced content is stored there. A step that
finds unexpected content has only exchanged two entries, so undoing it restores both.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.file_change_syscalls import Syscalls

VERBS = {
    "take": "taking away",
    "swap": "replacing",
    "put": "writing",
    "make": "making the directory",
    "rename": "moving",
    "remove": "removing the copied",
}


class CannotRename(Conflict):
    """The kernel cannot rename a directory of an overlay's lower layer, or across mounts."""


@dataclass(frozen=True, slots=True)
class Step:
    """Changes one name in the tree.

    A mark identifies an entry. New entries have "ino:" with the inode and, for files, the time, because
    inode numbers are reused. Old entries have "sha:" with a hash, "link:" with a target or "tree:" with a
    signature, because overlayfs may change their inode at the first write.
    """

    do: Literal["take", "swap", "put", "make", "rename", "remove"]
    path: str
    staged: str = ""  # its name in the staging directory
    mark: str = ""  # of the new entry at `path` or `to`
    expected: str = ""  # the mark of the old entry at `path`
    stamp: str = ""  # inode, size and times of the old entry
    to: str = ""  # the target; for "remove", the copy

    def __str__(self) -> str:
        return f"{VERBS[self.do]} '{display_path(self.path)}'" + (
            f" to '{display_path(self.to)}'" if self.to else ""
        )


def perform(step: Step, tree: Directory, staging: int, calls: Syscalls) -> None:
    """Perform a step. Raises Conflict if the old entry is not the expected one."""
    with tree.parent(step.path) as (fd, name):
        if step.stamp and make_stamp(calls.stat(fd, name)) != step.stamp:
            raise _changed_error(step)
        try:
            match step.do:
                case "take":
                    calls.rename(fd, name, staging, step.staged)
                case "swap":
                    calls.exchange(staging, step.staged, fd, name)
                case "put" | "make":
                    calls.rename(staging, step.staged, fd, name)
                case "rename":
                    with _open_parent(tree, step.to) as to:
                        _check(step, fd, name, step.mark, calls)
                        calls.rename(fd, name, *to)
                case "remove":
                    _check(step, fd, name, step.expected, calls)
                    calls.remove(fd, name)
        except OSError as error:
            if error.errno == errno.EXDEV:
                raise CannotRename("It cannot be renamed, only copied.") from None
            raise
        if step.do in ("take", "swap"):
            _check(step, staging, step.staged, step.expected, calls)


@contextmanager
def _open_parent(tree: Directory, path: str) -> Iterator[tuple[int, str]]:
    """As `Directory.parent`, but errors inside remain OSError."""
    with tree.parent(path) as (fd, name):
        held = os.dup(fd)
    try:
        yield held, name
    finally:
        os.close(held)


def _check(step: Step, fd: int, name: str, mark: str, calls: Syscalls) -> None:
    if not has_mark(fd, name, mark, calls):
        raise _changed_error(step)


def _changed_error(step: Step) -> Conflict:
    return Conflict(
        f"'{display_path(step.path)}' was changed by another process at the same time. Read it again."
    )


def make_stamp(found: os.stat_result) -> str:
    """A string that changes when a file is written or replaced."""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def revert(step: Step, tree: Directory, staging: int, calls: Syscalls) -> bool:
    """Undo a step as far as it was performed. Returns False if another process changed the path meanwhile.

    That change is kept: without our step, it would have replaced the old entry as well. The old entry is
    not stored elsewhere, or a jail could fill the disk that way.
    """
    if step.do == "remove":
        with _find_parent(tree, step.to) as copy, _find_parent(tree, step.path) as place:
            if copy and place and has_mark(*copy, step.mark, calls):
                calls.restore_missing(*copy, *place)
            return True  # without a copy, the removal had not started
    if step.do not in ("take", "swap"):
        with _find_parent(tree, step.to or step.path) as found:
            return found is None or _remove_new(step, *found, tree, staging, calls)
    if not exists(staging, step.staged, calls) or has_mark(staging, step.staged, step.mark, calls):
        return True  # it was not performed
    with _find_parent(tree, step.path) as found:
        if found is not None:
            return _restore_old(step, *found, staging, calls)
    try:
        tree.make_directory(step.path.rpartition("/")[0])
    except (BadRequest, Denied):
        return False
    with _find_parent(tree, step.path) as found:
        return found is not None and _restore_old(step, *found, staging, calls)


@contextmanager
def _find_parent(tree: Directory, path: str) -> Iterator[tuple[int, str] | None]:
    """The parent directory and the name; None if the parent is missing or not accessible."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(_open_parent(tree, path))
        except (BadRequest, Denied):
            yield None
        else:
            yield found


def _remove_new(step: Step, fd: int, name: str, tree: Directory, staging: int, calls: Syscalls) -> bool:
    if not has_mark(fd, name, step.mark, calls):
        return True  # nothing to undo
    try:
        if step.do == "make":
            calls.remove_directory(fd, name)
        elif step.do == "put":
            calls.rename(fd, name, staging, step.staged)
        else:
            with _find_parent(tree, step.path) as found:
                if found is None:
                    return False
                calls.rename(fd, name, *found)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOENT):
            raise
        return step.do == "make"  # a directory in use is kept
    return True


def _restore_old(step: Step, fd: int, name: str, staging: int, calls: Syscalls) -> bool:
    try:
        if step.mark and has_mark(fd, name, step.mark, calls):
            calls.exchange(staging, step.staged, fd, name)
        else:
            calls.rename(staging, step.staged, fd, name)
    except OSError as error:
        if error.errno not in (errno.EEXIST, errno.ENOENT):
            raise
        return False  # another process has created it since
    return True


def exists(fd: int, name: str, calls: Syscalls) -> bool:
    try:
        calls.stat(fd, name)
    except FileNotFoundError:
        return False
    return True


def has_mark(fd: int, name: str, mark: str, calls: Syscalls) -> bool:
    """True if the entry at a name has the mark."""
    kind, _, value = mark.partition(":")
    try:
        found = calls.stat(fd, name)
        match kind:
            case "ino":
                return value in (str(found.st_ino), f"{found.st_ino}:{found.st_mtime_ns}")
            case "link":
                return stat.S_ISLNK(found.st_mode) and calls.read_link(fd, name) == value
            case "sha":
                return stat.S_ISREG(found.st_mode) and calls.digest(fd, name) == value
            case "tree":
                return stat.S_ISDIR(found.st_mode) and calls.signature(fd, name) == value
    except FileNotFoundError:
        return False
    return False


def to_step_error(step: Step, error: HutchError | OSError) -> HutchError:
    """The error of a step, with a description of the step."""
    if isinstance(error, OSError):
        error = to_hutch_error(error, step.path)
    error.args = (f"Nothing was changed, since {step} failed. {error}",)
    return error


def display_path(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode() or "."
