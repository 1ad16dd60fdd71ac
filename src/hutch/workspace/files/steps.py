"""The steps of a change: each can be made, and be unmade by whoever finds it half made.

Where a step has come to is never noted down: it is seen from what lies where. So
a step can be undone twice, by a process that knows nothing but the plan.

New content waits in a staging directory, and what it replaces is kept there. A
step that finds something else than was planned has changed nothing that undoing
it does not put right: the two have only changed places.
"""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Literal

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError
from hutch.snapshots.directory import Directory, to_hutch_error
from hutch.workspace.files.syscalls import Syscalls

VERBS = {
    "take": "taking away",
    "swap": "replacing",
    "put": "writing",
    "make": "making the directory",
    "rename": "moving",
    "remove": "removing the copied",
}


class CannotRename(Conflict):
    """The kernel cannot rename it: a directory of an overlay's lower layer, or another mount."""


@dataclass(frozen=True, slots=True)
class Step:
    """One name of the tree gets something else.

    A mark tells something apart: "ino:" with a number, and a file's time, for what we made, since numbers
    are given again; "sha:" with a hash, "link:" with a target or "tree:" with a signature for what was
    there, since overlayfs may give it another number when it is first changed.
    """

    do: Literal["take", "swap", "put", "make", "rename", "remove"]
    path: str
    staged: str = ""  # its name in the staging directory, before or after
    mark: str = ""  # of what comes to `path`, or to `to`
    expected: str = ""  # the mark of what must have been at `path`
    stamp: str = ""  # number, size and times of what was read at `path`
    to: str = ""  # where it goes; of what is removed: where its copy is

    def __str__(self) -> str:
        return f"{VERBS[self.do]} '{display_path(self.path)}'" + (
            f" to '{display_path(self.to)}'" if self.to else ""
        )


def perform(step: Step, tree: Directory, staging: int, calls: Syscalls) -> None:
    """Make a step; Conflict when something else was there than planned."""
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
    """As `Directory.parent`, but what fails inside stays an OSError."""
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
        f"'{display_path(step.path)}' was changed by somebody else at this very moment. Read it again."
    )


def make_stamp(found: os.stat_result) -> str:
    """Another one as soon as somebody writes to a file or puts another in its place."""
    return f"{found.st_ino}:{found.st_size}:{found.st_mtime_ns}:{found.st_ctime_ns}"


def revert(step: Step, tree: Directory, staging: int, calls: Syscalls) -> bool:
    """Unmake a step as far as it was made. False when somebody else has written to its place meanwhile.

    That stays: had we never come, it would have replaced what was there before as well. Nor is the latter
    kept elsewhere, or a jail could fill the disk with it.
    """
    if step.do == "remove":
        with _find_parent(tree, step.to) as copy, _find_parent(tree, step.path) as place:
            if copy and place and has_mark(*copy, step.mark, calls):
                calls.restore_missing(*copy, *place)
            return True  # without a copy in its place, removing had not begun
    if step.do not in ("take", "swap"):
        with _find_parent(tree, step.to or step.path) as found:
            return found is None or _remove_new(step, *found, tree, staging, calls)
    if not exists(staging, step.staged, calls) or has_mark(staging, step.staged, step.mark, calls):
        return True  # it was never made
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
    """The directory that holds a name, and the name, as long as there is one that we may enter."""
    with ExitStack() as stack:
        try:
            found = stack.enter_context(_open_parent(tree, path))
        except (BadRequest, Denied):
            yield None
        else:
            yield found


def _remove_new(step: Step, fd: int, name: str, tree: Directory, staging: int, calls: Syscalls) -> bool:
    if not has_mark(fd, name, step.mark, calls):
        return True  # it was never there, or is no longer: nothing of ours is left
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
        return step.do == "make"  # a directory that somebody uses already may stay
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
        return False  # what is there now is somebody's later work
    return True


def exists(fd: int, name: str, calls: Syscalls) -> bool:
    try:
        calls.stat(fd, name)
    except FileNotFoundError:
        return False
    return True


def has_mark(fd: int, name: str, mark: str, calls: Syscalls) -> bool:
    """Whether a name holds what the mark tells of."""
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
    """What stopped a step, with the step in front."""
    if isinstance(error, OSError):
        error = to_hutch_error(error, step.path)
    told = f"Nothing was changed, since {step} failed. {error}"
    error.args = (told,)
    return error


def display_path(path: str) -> str:
    return path.encode("utf-8", "backslashreplace").decode() or "."
