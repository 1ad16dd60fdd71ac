"""The layers of an installation on disk: found, listed, kept in use, removed.

A layer is made under a temporary name, appears by a rename and never changes. Beside it is its
lock file, whose time is that of the last use. A session that uses a layer names it in its
workspace's record; while a workspace is prepared, it holds the lock shared.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, field, fields
from pathlib import Path
from typing import Self

from hutch.domain.errors import BadRequest, Conflict, NotFound, Unavailable
from hutch.jail.pid_stamped_names import is_left_over
from hutch.system.atomic_file import replace_file
from hutch.system.file_lock import try_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.workspace_and_cache_removal import NEW, TRASH, discard, move_to_trash
from hutch.workspace.lifecycle.workspace_record_and_directories import Home

FILE = "layer.json"
TREE = "tree"
ON_DISK = "on-disk"  # a mark in the directory of a layer: it survives the end of the machine
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
DAY_S = 86_400.0
MIN_AGE_S = 600.0  # a layer that was used just now may be used again soon
MIN_PREFIX = 4


def boot_id() -> str:  # another text each time that the machine starts
    return BOOT_ID.read_text().strip()


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """Facts about a layer."""

    key: str
    owner: str  # empty if all owners share it
    repository: str
    commit: str = ""  # the one that it was built for; empty if its files were not committed
    created_ms: int = 0
    boot_id: str = ""  # of the machine at that time
    duration_s: float = 0.0
    bytes: int = 0
    files: int = 0
    roots: tuple[str, ...] = ()
    steps: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()  # optional commands, each with its reason
    variables: dict[str, str] = field(default_factory=dict)  # of sessions that use it
    path: tuple[str, ...] = ()  # directories that go before PATH there

    @classmethod
    def read(cls, directory: Path) -> Self:
        text = json.loads((directory / FILE).read_text())
        found = {each.name: text[each.name] for each in fields(cls) if each.name in text}  # of any version
        for name in ("roots", "steps", "inputs", "dropped", "failed", "path"):
            found[name] = tuple(found.get(name, ()))
        return cls(**found)

    def write(self, directory: Path) -> None:
        replace_file(directory / FILE, json.dumps(asdict(self), indent=1) + "\n", durable=True)


@dataclass(frozen=True, slots=True)
class BuildFailure:
    """The reason why there is no layer, with the last lines of its build."""

    reason: str
    last_lines: tuple[str, ...] = ()
    denied: tuple[str, ...] = ()  # hosts that the jail did not reach, with the reason
    at_ms: int = 0


@dataclass(frozen=True, slots=True)
class LayerUse:
    """A layer with its last use, and the workspaces that are based on it."""

    layer: Layer
    used_ms: int
    workspaces: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class LayerStore:
    """The layers below one data directory. All methods block the thread."""

    home: Home

    def make(self) -> None:
        self.home.layers.mkdir(mode=0o700, parents=True, exist_ok=True)

    def lock_path(self, key: str) -> Path:
        return self.home.layers / f"{key}.lock"

    def log_path(self, key: str) -> Path:
        """The output of the last build of a layer. It grows while the build runs."""
        return self.home.layers / f"{key}.log"

    def failure_path(self, key: str) -> Path:
        return self.home.layers / f"{key}.failed"

    def note_failure(self, key: str, failure: BuildFailure | None) -> None:
        """Store why the last build of a layer failed, or that it did not. The caller holds the lock."""
        if failure is None:
            self.failure_path(key).unlink(missing_ok=True)
        else:
            replace_file(self.failure_path(key), json.dumps(asdict(failure)) + "\n", durable=False)

    def failure(self, key: str) -> BuildFailure | None:
        """Why the last build of a layer failed; None if it did not, or was never tried."""
        try:
            found = json.loads(self.failure_path(key).read_text())
        except FileNotFoundError:
            return None
        return BuildFailure(
            found["reason"], tuple(found["last_lines"]), tuple(found["denied"]), found["at_ms"]
        )

    def find(self, key: str) -> Layer | None:
        """A layer by its key, which counts as a use of it. The caller holds the lock."""
        directory = self.home.layer(key)
        try:
            layer = Layer.read(directory)
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError):
            if users := self._users(key):
                raise Unavailable(
                    f"The layer '{key[:12]}' is damaged: {directory / FILE} cannot be read. "
                    f"It is built again when {', '.join(users)} no longer exist."
                ) from None
            discard(move_to_trash(directory))
            return None
        if not (directory / ON_DISK).exists() and layer.boot_id != boot_id():
            discard(move_to_trash(directory))  # the machine ended before all of it was on disk
            return None
        os.utime(self.lock_path(key))
        return layer

    def layers(self) -> list[Layer]:
        """All complete layers, the newest first."""
        found = []
        for path in self._directories():
            with suppress(OSError, ValueError, KeyError, TypeError):
                found.append(Layer.read(path))
        return sorted(found, key=lambda layer: -layer.created_ms)

    def uses(self) -> list[LayerUse]:
        records = self.home.records()
        found = []
        for layer in self.layers():
            named = tuple(record.id for record in records if layer.key in record.layers)
            with suppress(FileNotFoundError):
                used_ms = int(self.lock_path(layer.key).stat().st_mtime * 1000)
                found.append(LayerUse(layer, used_ms, named))
        return found

    def resolve(self, prefix: str, owner: str | None = None) -> Layer:
        """The layer whose key begins so; with `owner`, only one that this user may see."""
        if len(prefix) < MIN_PREFIX:
            raise BadRequest(f"'{prefix}' is too short: give {MIN_PREFIX} or more characters of a key.")
        seen = [layer for layer in self.layers() if owner is None or layer.owner == owner]
        found = [layer for layer in seen if layer.key.startswith(prefix)]
        if len(found) > 1:
            raise BadRequest(f"{len(found)} layers begin with '{prefix}'. Give more characters.")
        if not found:
            raise NotFound(f"There is no layer '{prefix}'. `hutch environment list` shows all.")
        return found[0]

    def read_log(self, prefix: str) -> list[str]:
        """The lines that the last build of a layer printed, whether it succeeded or not."""
        if len(prefix) < MIN_PREFIX or not prefix.isalnum():
            raise BadRequest(f"{prefix[:80]!a} is no key: give {MIN_PREFIX} or more characters of one.")
        found = sorted(self.home.layers.glob(f"{prefix}*.log"))
        if len(found) != 1:
            raise NotFound(
                f"There is no log of a layer '{prefix}'."
                if not found
                else f"{len(found)} logs begin with '{prefix}'. Give more characters."
            )
        return found[0].read_text(errors="replace").splitlines()

    def remove(self, key: str) -> None:
        """Remove a layer that nothing uses."""
        aside = self._set_aside(key)
        if aside is None:
            raise Conflict(
                f"The layer '{key[:12]}' is used by {', '.join(self._users(key)) or 'a build'}. "
                "Remove these first."
            )
        discard(aside)

    def collect(self, *, max_bytes: int, max_days: float) -> list[str]:
        """Remove layers unused for `max_days`, the least recently used beyond `max_bytes`, and leftovers."""
        self._remove_leftovers(max_days)
        uses = sorted(self.uses(), key=lambda use: use.used_ms)
        total, now, removed = sum(use.layer.bytes for use in uses), time.time(), []
        for use in uses:
            age_s = now - use.used_ms / 1000
            is_too_much = total > max_bytes and age_s > MIN_AGE_S
            if not (age_s > max_days * DAY_S or is_too_much) or use.workspaces:
                continue
            aside = self._set_aside(use.layer.key)
            if aside is not None:
                discard(aside)
                total -= use.layer.bytes
                removed.append(use.layer.key)
        return removed

    def _users(self, key: str) -> list[str]:
        return [record.id for record in self.home.records() if key in record.layers]

    def _set_aside(self, key: str) -> Path | None:
        held = try_lock(self.lock_path(key))
        if held is None:
            return None
        try:
            # Checked under the lock, so that no workspace can start to use it.
            if self._users(key):
                return None
            aside = move_to_trash(self.home.layer(key))
            self._remove_notes(key)
            return aside
        finally:
            os.close(held)

    def _remove_notes(self, key: str) -> None:
        """Remove the files beside a layer. The caller holds the lock."""
        self.log_path(key).unlink(missing_ok=True)
        self.failure_path(key).unlink(missing_ok=True)
        self.lock_path(key).unlink(missing_ok=True)

    def _remove_leftovers(self, max_days: float) -> None:
        """Remove leftovers of killed builds, and the logs of builds that failed long ago."""
        with suppress(FileNotFoundError):
            for path in sorted(self.home.layers.iterdir()):
                kind, _, rest = path.name.partition("-")
                if kind in (NEW, TRASH) and is_left_over(rest.partition("-")[0]):
                    discard(path)
                is_lock = path.suffix == ".lock" and not self.home.layer(path.stem).exists()
                if is_lock and time.time() - path.stat().st_mtime > max_days * DAY_S:
                    held = try_lock(path)
                    if held is not None:
                        try:
                            self._remove_notes(path.stem)
                        finally:
                            os.close(held)

    def _directories(self) -> Iterator[Path]:
        with suppress(FileNotFoundError):
            for path in self.home.layers.iterdir():
                if not path.name.startswith(".") and path.suffix == "" and path.is_dir():
                    yield path
