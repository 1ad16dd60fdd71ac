"""All of a change or nothing, also when we are killed in the middle.

A change is first made ready in a staging directory and its plan written beside
it; then its steps are made; removing the plan is the moment from which on it is
done. Whoever comes next and finds a plan undoes it before anything else.

Plans lie in the workspace's journal directory, which no jail sees. The staging
directory lies there as well, so that a jail can neither see nor alter what waits
in it, as long as files can be renamed from there into the tree. They cannot where
the tree is a mount of its own, as an overlay is: then it lies at the top of the
tree, under a name that nobody can guess, until the change is done. Even then the
undo only ever renames names beneath the tree, so it can do nothing in there that
the jail could not do itself.
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
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, Unavailable
from hutch.snapshots.directory import Directory, to_hutch_error
from hutch.workspace.files.steps import Step, display_path, perform, revert, to_step_error
from hutch.workspace.files.syscalls import Syscalls

logger = structlog.get_logger()

PLAN, NEW_PLAN = "plan", "plan.new"
STAGING_PREFIX = (
    ".hutch-"  # and a name: a staging directory at the top of a tree, while the journal knows the name
)
NAME = re.compile(r"[0-9a-f]{32}")
LOCK_TIMEOUT_S = 30.0
OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


@dataclass(slots=True)
class Staging:
    """What waits to be put into the tree, and what is kept that was taken out of it."""

    fd: int
    calls: Syscalls
    owner: tuple[int, int]
    count: int = 0

    def file(self, data: bytes, mode: int, owner: tuple[int, int]) -> tuple[str, str]:
        """A file that waits, safe on disk: its name and its mark."""
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
        """A directory that waits."""
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
    """What must be undone if nobody says that it is done."""

    staging: str  # where: "journal" or "tree"
    steps: tuple[Step, ...]
    times: dict[str, tuple[int, int]] = field(default_factory=dict)  # of the directories that are touched

    def to_json(self) -> bytes:
        return json.dumps(asdict(self)).encode()

    @classmethod
    def from_json(cls, data: bytes) -> "Plan":
        found = json.loads(data)
        times = {path: (accessed, modified) for path, (accessed, modified) in found["times"].items()}
        return cls(found["staging"], tuple(Step(**step) for step in found["steps"]), times)


class Journal:
    """Changes to one tree, one at a time among all who use this journal."""

    def __init__(self, tree: Directory, place: Directory, calls: Syscalls | None = None) -> None:
        self.tree = tree
        self.place = place
        self.calls = calls or Syscalls()
        self.is_beside = _mount_of(tree.fd) == _mount_of(place.fd)

    def is_hidden(self, name: str) -> bool:
        """Whether a name at the top of the tree is a staging directory of a change that is being made."""
        rest = name.removeprefix(STAGING_PREFIX)
        return rest != name and NAME.fullmatch(rest) is not None and self.place.exists(rest)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Nobody else changes the tree through a journal meanwhile, and no change is half made."""
        fd = self.place.open("", OPEN_DIRECTORY)
        try:
            _lock(fd)
            self._recover(fd)
            yield
        finally:
            os.close(fd)

    def change(self, prepare: Callable[[Staging], Iterable[Step]]) -> None:
        """Let `prepare` say which steps to make, and make them all or none. Only while `exclusive`."""
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
            told = to_step_error(step, error)
            told.args = (f"{told}{self._undo(name, plan, staging, told)}",)
            raise told from None
        except BaseException as error:
            self._undo(name, plan, staging, error)
            raise

    def _undo(self, name: str, plan: Plan, staging: int, cause: BaseException | None = None) -> str:
        """Unmake all steps; returns a sentence about what others have changed meanwhile, which stays."""
        try:
            left = [step for step in reversed(plan.steps) if not revert(step, self.tree, staging, self.calls)]
            self._set_times(plan.times)
            with self._entry(name) as fd, contextlib.suppress(FileNotFoundError):
                self.calls.unlink(fd, PLAN)
        except (HutchError, OSError) as error:
            because = f" It had failed because: {cause}" if cause else ""
            raise Unavailable(
                f"A change that failed could not be undone yet: {error} "
                f"It will be when the workspace is next used.{because}"
            ) from error
        paths = ", ".join(f"'{display_path(step.path)}'" for step in left)
        return f" Somebody else wrote to {paths} meanwhile, and that was left as it is." if left else ""

    def _recover(self, fd: int) -> None:
        """Undo what somebody began who is gone: we hold the lock, so nobody is at it."""
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
            return  # somebody in the tree removed what was kept there, and nothing can be put back
        try:
            left = self._undo(name, plan, staging)
        finally:
            os.close(staging)
        logger.warning("workspace.change_undone", steps=len(plan.steps), left=left.strip() or None)

    def _clean_up(self, name: str, *, done: bool = False) -> None:
        """Remove what a change has left, unless its plan is still there. The next one tries again."""
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
                if len(plan.steps) > 1:  # a single step is whole by itself, also when the power fails
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
        except ValueError:  # the power failed before it was on disk, and so before any step
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
            with contextlib.suppress(BadRequest):  # one that the change itself will make
                found = self.tree.stat(path, follow=True)
                times[path] = (found.st_atime_ns, found.st_mtime_ns)
        return times

    def _set_times(self, times: dict[str, tuple[int, int]]) -> None:
        for path, times_ns in times.items():
            with contextlib.suppress(BadRequest, Denied):  # somebody removed it, or it is not ours
                fd = self.tree.open(path, os.O_PATH | os.O_DIRECTORY)
                try:
                    self.calls.set_times(fd, times_ns)
                except PermissionError as error:
                    raise to_hutch_error(error, path) from None
                finally:
                    os.close(fd)


def _lock(fd: int) -> None:
    """Wait until we alone hold it; it ends with the descriptor, so no crash leaves it behind."""
    until = time.monotonic() + LOCK_TIMEOUT_S
    wait_s = 0.001
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until:
                raise Conflict(
                    f"Another change to the workspace has been going on for {LOCK_TIMEOUT_S:.0f} seconds. "
                    "Try again when it is done."
                ) from None
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, 0.005)


def _mount_of(fd: int) -> str:
    """Files can be renamed between two directories only if they are reached through the same mount."""
    lines = Path(f"/proc/self/fdinfo/{fd}").read_text().splitlines()
    return next(line for line in lines if line.startswith("mnt_id:"))
