"""Makes a change completely or not at all, even if the process is killed.

A change is first prepared in a staging directory, and its plan is written next to it.
Then its steps are performed. Deleting the plan completes the change. The next process
that finds a plan undoes it before anything else.

Plans are in the journal directory of the workspace, which no jail can see. The staging
directory is there too, out of reach of jails, if files can be renamed from there into
the tree. This is impossible if the tree is its own mount, such as an overlay. Then it is
at the top of the tree, under an unguessable name, until the change is complete. Even
then an undo only renames names inside the tree, which the jail could do itself.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, field
from pathlib import Path

import structlog

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, Unavailable
from hutch.snapshots.confined_directory import Directory, to_hutch_error
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.files.change_steps import Step, display_path, perform, revert, to_step_error
from hutch.workspace.files.file_change_syscalls import Syscalls

logger = structlog.get_logger()

PLAN, NEW_PLAN = "plan", "plan.new"
STAGING_PREFIX = ".hutch-"  # of a staging directory at the top of a tree, followed by a name in the journal
NAME = re.compile(r"[0-9a-f]{32}")
LOCK_TIMEOUT_S = 30.0
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(slots=True)
class Staging:
    """New entries before they are moved into the tree, and old entries that were moved out."""

    fd: int
    calls: Syscalls
    owner: tuple[int, int]
    count: int = 0

    def file(self, data: bytes, mode: int, owner: tuple[int, int]) -> tuple[str, str]:
        """Write and sync a new file; returns its name and its mark."""
        name = self.new_name()
        fd = self.calls.make_file(self.fd, name)
        try:
            self.calls.write(fd, data)
            self.calls.set_owner(fd, owner)
            self.calls.set_mode(fd, mode)
            self.calls.sync(fd)
            found = os.fstat(fd)
            return name, f"ino:{found.st_ino}:{found.st_mtime_ns}"
        finally:
            os.close(fd)

    def directory(self) -> tuple[str, str]:
        """Create a new directory; returns its name and its mark."""
        name = self.new_name()
        self.calls.make_directory(self.fd, name, 0o755)
        fd = os.open(name, OPEN_DIRECTORY | os.O_CLOEXEC, dir_fd=self.fd)
        try:
            self.calls.set_owner(fd, self.owner)
            self.calls.set_mode(fd, 0o755)
            return name, f"ino:{os.fstat(fd).st_ino}"
        finally:
            os.close(fd)

    def new_name(self) -> str:
        self.count += 1
        return str(self.count)


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to undo unless the change is completed."""

    staging: str  # its location: "journal" or "tree"
    steps: tuple[Step, ...]
    times: dict[str, tuple[int, int]] = field(default_factory=dict)  # of the changed directories

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Plan":
        found = json.loads(data)
        times = {path: (accessed, modified) for path, (accessed, modified) in found["times"].items()}
        return cls(found["staging"], tuple(Step(**step) for step in found["steps"]), times)


class Journal:
    """Changes to one tree, one at a time across all processes."""

    def __init__(self, tree: Directory, place: Directory, calls: Syscalls | None = None) -> None:
        self.tree = tree
        self.place = place
        self.calls = calls or Syscalls()
        self.is_beside = _mount_of(tree.fd) == _mount_of(place.fd)

    def is_hidden(self, name: str) -> bool:
        """True if a name at the top of the tree is a staging directory of a change in progress."""
        rest = name.removeprefix(STAGING_PREFIX)
        return rest != name and NAME.fullmatch(rest) is not None and self.place.exists(rest)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Lock the journal, and undo an incomplete change first."""
        fd = self.place.open("", OPEN_DIRECTORY)
        try:
            _lock(fd)
            self._recover(fd)
            yield
        finally:
            os.close(fd)

    def change(self, prepare: Callable[[Staging], Iterable[Step]]) -> None:
        """Perform all steps that `prepare` returns, or none. Requires `exclusive`."""
        name = secrets.token_hex(16)
        where = "journal" if self.is_beside else "tree"
        try:
            self.calls.make_directory(self.place.fd, name, 0o700)
            if where == "tree":
                self.calls.make_directory(self.tree.fd, STAGING_PREFIX + name, 0o700)
            fd = self._open_staging(name, where)
            try:
                if where == "tree":
                    self.calls.set_owner(fd, self.tree.owner)
                steps = tuple(prepare(Staging(fd, self.calls, self.tree.owner)))
                if steps:
                    self._perform(name, Plan(where, steps, self._times(steps)), fd)
            finally:
                os.close(fd)
        except OSError as error:
            raise to_hutch_error(error, "the workspace's journal") from None
        finally:
            self._clean_up(name)

    def _perform(self, name: str, plan: Plan, staging: int) -> None:
        self._write(name, plan)
        step = plan.steps[0]
        try:
            for step in plan.steps:
                perform(step, self.tree, staging, self.calls)
            with self._entry(name) as fd:
                self.calls.unlink(fd, PLAN)
        except (HutchError, OSError) as error:
            problem = to_step_error(step, error)
            problem.args = (f"{problem}{self._undo(name, plan, staging, problem)}",)
            raise problem from None
        except BaseException as error:
            self._undo(name, plan, staging, error)
            raise

    def _undo(self, name: str, plan: Plan, staging: int, cause: BaseException | None = None) -> str:
        """Undo all steps; returns a sentence about concurrent changes, which are not undone."""
        try:
            left = [step for step in reversed(plan.steps) if not revert(step, self.tree, staging, self.calls)]
            self._set_times(plan.times)
            with self._entry(name) as fd, contextlib.suppress(FileNotFoundError):
                self.calls.unlink(fd, PLAN)
        except (HutchError, OSError) as error:
            because = f" It failed because: {cause}" if cause else ""
            raise Unavailable(
                f"A failed change could not be undone yet: {error} "
                f"It will be undone at the next use of the workspace.{because}"
            ) from error
        paths = ", ".join(f"'{display_path(step.path)}'" for step in left)
        return f" Another process changed {paths} in the meantime, which was not undone." if left else ""

    def _recover(self, fd: int) -> None:
        """Undo changes of dead processes. The lock shows that no change is in progress."""
        for name in os.listdir(fd):
            if NAME.fullmatch(name):
                plan = self._read(name)
                if plan is not None:
                    self._recover_one(name, plan)
                self._clean_up(name, done=True)

    def _recover_one(self, name: str, plan: Plan) -> None:
        try:
            staging = self._open_staging(name, plan.staging)
        except OSError:
            return  # a process removed the staging directory, so nothing can be restored
        try:
            left = self._undo(name, plan, staging)
        finally:
            os.close(staging)
        logger.warning("workspace.change_undone", steps=len(plan.steps), left=left.strip() or None)

    def _clean_up(self, name: str, *, done: bool = False) -> None:
        """Remove leftovers of a change, unless its plan still exists. The next change retries."""
        with contextlib.suppress(OSError):
            if done or not self._has_plan(name):
                with contextlib.suppress(FileNotFoundError):
                    self.calls.remove(self.tree.fd, STAGING_PREFIX + name)
                with contextlib.suppress(FileNotFoundError):
                    self.calls.remove(self.place.fd, name)

    def _write(self, name: str, plan: Plan) -> None:
        with self._entry(name) as entry:
            fd = self.calls.make_file(entry, NEW_PLAN)
            try:
                self.calls.write(fd, plan.to_json())
                if len(plan.steps) > 1:  # a single step is atomic, even if the power fails
                    self.calls.sync(fd)
            finally:
                os.close(fd)
            self.calls.rename(entry, NEW_PLAN, entry, PLAN)

    def _read(self, name: str) -> Plan | None:
        try:
            with self._entry(name) as entry:
                fd = os.open(PLAN, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=entry)
        except FileNotFoundError:
            return None
        with os.fdopen(fd, "rb") as file:
            data = file.read()
        try:
            return Plan.from_json(data)
        except ValueError:  # the power failed before the first step
            return None

    def _has_plan(self, name: str) -> bool:
        try:
            with self._entry(name) as entry:
                os.stat(PLAN, dir_fd=entry, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    @contextmanager
    def _entry(self, name: str) -> Iterator[int]:
        fd = os.open(name, OPEN_DIRECTORY | os.O_CLOEXEC, dir_fd=self.place.fd)
        try:
            yield fd
        finally:
            os.close(fd)

    def _open_staging(self, name: str, where: str) -> int:
        above, name = (self.tree.fd, STAGING_PREFIX + name) if where == "tree" else (self.place.fd, name)
        return os.open(name, OPEN_DIRECTORY | os.O_CLOEXEC, dir_fd=above)

    def _times(self, steps: Sequence[Step]) -> dict[str, tuple[int, int]]:
        touched = {path.rpartition("/")[0] for step in steps for path in (step.path, step.to or step.path)}
        times = {}
        for path in touched:
            with contextlib.suppress(BadRequest):  # the change will create it
                found = self.tree.stat(path, follow=True)
                times[path] = (found.st_atime_ns, found.st_mtime_ns)
        return times

    def _set_times(self, times: dict[str, tuple[int, int]]) -> None:
        for path, times_ns in times.items():
            with contextlib.suppress(BadRequest, Denied):  # it was removed, or is not ours
                fd = self.tree.open(path, os.O_PATH | os.O_DIRECTORY)
                try:
                    self.calls.set_times(fd, times_ns)
                except PermissionError as error:
                    raise to_hutch_error(error, path) from None
                finally:
                    os.close(fd)


def _lock(fd: int) -> None:
    """Wait for an exclusive lock. It ends with the descriptor, also after a crash."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    wait_s = 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise Conflict(
                    f"Another change to the workspace has been in progress for {LOCK_TIMEOUT_S:.0f} seconds. "
                    "Retry when it has ended."
                ) from None
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, 0.005)


def _mount_of(fd: int) -> str:
    """The mount of a directory. Files can be renamed only within one mount."""
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))
