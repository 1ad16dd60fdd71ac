"""Opens a workspace: a descriptor for the host, and a location for a jail.

A copy is opened directly. A large repository is not copied but mounted as an overlay:
the read-only base below, the changes above. Layers with installed dependencies lie below
the base, so that a tracked file always wins; below a copy they make it an overlay, too,
with the copy as its changes. The overlay is mounted in its own
namespaces, so it is invisible on the host, needs no root, and disappears with the last
descriptor, even after a crash. Overlayfs stores metadata in extended attributes that
the jail can neither see nor set through the mount. Redirects are disabled.
"""

import asyncio
import os
import subprocess
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from hutch.domain.errors import Conflict, NotFound, Unavailable
from hutch.jail.jail_directory_and_namespaces import JailLocation, Namespaces
from hutch.jail.launch.bubblewrap_launch import nsenter_prefix
from hutch.jail.launch.idmapped_mount import (
    STAGE,
    attach,
    in_mount_namespace,
    mount,
    own_mount_namespace,
    user_namespace,
)
from hutch.jail.launch.jail_uid import HOST_ON_DISK, KERNEL_ROOT, Identity, claim_identity
from hutch.snapshots.confined_directory import Directory
from hutch.system.file_lock import try_lock
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.lifecycle.shared_base_checkout import tree_path
from hutch.workspace.lifecycle.workspace_and_cache_removal import LOCK, discard
from hutch.workspace.lifecycle.workspace_record_and_directories import Home, Record

UNSHARE, MOUNT = "/usr/bin/unshare", "/usr/bin/mount"
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
PATH_ONLY = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
SPARE_INODES = 16  # for the layers themselves
MERGED = "merged"  # in a workspace's directory: where a copy is mounted over its layers
MOUNT_OPTIONS = "redirect_dir=nofollow,metacopy=off,index=off"
# Run in the data directory, so that no path needs quoting.
Result = TypeVar("Result")
SCRIPT = """
set -e
if [ "$3" ]; then
    mount -t tmpfs -o "$3" hutch "$2/memory"
    mkdir "$2/memory/upper" "$2/memory/work"
    cp -a "$2/upper/." "$2/memory/upper/"
fi
mount -t overlay -o "$1" hutch "$2/$4"
echo mounted
exec cat
"""


@dataclass(slots=True)
class WorkspaceMount:
    """An open workspace. Close it after the jails on it."""

    record: Record
    directory: Directory  # all files
    upper: Directory | None  # in overlay mode, the changes in overlayfs's format
    place: JailLocation
    _home: Path  # where it is stored
    _lock: int
    copy: Directory | None = None  # of a copy over layers, the copied files alone

    @property
    def attributes(self) -> str | None:
        """The prefix of overlayfs's attributes in `upper`; a jail can set only the other prefix."""
        if self.upper is None:
            return None
        return "trusted.overlay." if os.geteuid() == KERNEL_ROOT else "user.overlay."

    def close(self) -> None:
        """Release everything, after writing memory to disk. Can be called again. Blocks the thread.

        Unmounting layers flushes pending writes, which may take a while.
        """
        if self._lock < 0:
            return
        try:
            if self.record.storage == "memory":
                self.save()
        finally:
            self.directory.close()
            for below in (self.upper, self.copy):
                if below is not None:
                    below.close()
            if self.place.namespaces is not None:
                for fd in (self.place.namespaces.user, self.place.namespaces.mount):
                    if fd is not None:
                        os.close(fd)
            if self.place.identity is not None:
                self.place.identity.release()
            os.close(self._lock)
            self._lock = -1

    def save(self) -> None:
        """Write changes in memory to disk, for the next opening. Nothing else may write meanwhile."""
        saved, namespaces = self._home / "upper.saved", self.place.namespaces
        assert namespaces is not None
        if saved.exists():
            discard(saved)
        saved.mkdir(mode=0o700)
        if namespaces.user is None:
            _in_own_thread(lambda: _save_as_root(namespaces.mount))
        else:
            _copy_layer(self._home / "memory/upper", saved, nsenter_prefix(namespaces))
        before = self._home / "upper.before"
        (self._home / "upper").rename(before)
        saved.rename(self._home / "upper")
        discard(before)


async def open_workspace(home: Home, id: str) -> WorkspaceMount:
    """Open a workspace. No other process may have it open."""
    directory = home.workspace(id)
    record = await asyncio.to_thread(Record.read, directory)
    opening = asyncio.ensure_future(asyncio.to_thread(mount_directory, home, directory, record))
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opened = (await asyncio.gather(opening, return_exceptions=True))[0]
        if isinstance(opened, WorkspaceMount):
            opened.close()
        raise


def mount_directory(home: Home, directory: Path, record: Record) -> WorkspaceMount:
    """Open a workspace at any path below the data directory, such as an unfinished one. Blocks the thread."""
    lock = try_lock(directory / LOCK)
    if lock is None:
        raise Conflict(f"The workspace '{record.id}' is already open. Close it there first.")
    try:
        if record.mode != "overlay" and not record.layers:
            tree = directory / "tree"
            return WorkspaceMount(record, Directory.at(tree), None, JailLocation(tree, tree), directory, lock)
        lowers = [home.layer(key) / "tree" for key in record.layers]
        if record.mode == "overlay":
            assert record.base is not None
            lowers.insert(0, tree_path(home, record.base))
        for lower in lowers:
            if not lower.is_dir():
                kind = "layer" if lower.is_relative_to(home.layers) else "base"
                raise NotFound(
                    f"The {kind} '{lower.parent.name}' of the workspace '{record.id}' was removed. "
                    "Prepare it again."
                )
        _repair_layers(directory, record)
        layered = _as_root if os.geteuid() == KERNEL_ROOT else _as_user
        return layered(home, directory, lowers, record, lock)
    except BaseException:
        os.close(lock)
        raise


def _repair_layers(directory: Path, record: Record) -> None:
    """Create or repair the directories of the layers after a crash."""
    if (directory / "work").exists():
        discard(directory / "work")  # it may belong to another user or be incomplete
    (directory / "work").mkdir(mode=0o700)
    if record.mode != "overlay":
        (directory / MERGED).mkdir(mode=0o755, exist_ok=True)
        return
    (directory / "memory").mkdir(mode=0o700, exist_ok=True)
    if not (directory / "upper").exists():  # a crash between two renames of `save`
        (directory / "upper.saved").rename(directory / "upper")
    for name in ("upper.before", "upper.saved"):
        if (directory / name).exists():
            discard(directory / name)


def _as_user(
    home: Home, directory: Path, lowers: Sequence[Path], record: Record, lock: int
) -> WorkspaceMount:
    """Mount in the namespaces of a helper process, which ends once its descriptors are opened."""
    inside, below = directory.relative_to(home.data), [lower.relative_to(home.data) for lower in lowers]
    changes, size = _memory_options(record)
    above, merged = (f"{changes}upper", "tree") if record.mode == "overlay" else ("tree", MERGED)
    layers = f"lowerdir={':'.join(map(str, below))},upperdir={inside}/{above},workdir={inside}/{changes}work"
    for program in (UNSHARE, MOUNT):
        if not Path(program).exists():
            raise Unavailable(f"{program} is missing. Install it: sudo apt-get install -y util-linux mount")
    holder = subprocess.Popen(
        [
            *(UNSHARE, "--user", "--map-root-user", "--mount", "--propagation", "slave"),
            *(
                "/bin/sh",
                "-c",
                SCRIPT,
                "sh",
                f"{layers},userxattr,nosuid,nodev,{MOUNT_OPTIONS}",
                str(inside),
                size,
                merged,
            ),
        ],
        env=ENVIRONMENT,
        cwd=home.data,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    fds: list[int] = []
    with holder:
        assert holder.stdout and holder.stderr
        try:
            if holder.stdout.read(8) != b"mounted\n":
                lines = holder.stderr.read().decode(errors="replace").strip().splitlines()
                raise Unavailable(
                    f"No layers can be mounted here: {lines[-1] if lines else 'no reason given'}."
                )
            proc = Path(f"/proc/{holder.pid}")
            for name in ("ns/user", "ns/mnt"):
                fds.append(os.open(proc / name, os.O_RDONLY | os.O_CLOEXEC))
            for name in (merged, above):
                fds.append(os.open(f"{proc}/root{directory / name}", PATH_ONLY))
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise
        finally:
            holder.kill()
    user, mounts, tree, upper = fds
    place = JailLocation(
        directory / merged, _host_path_of_changes(directory, record, upper), Namespaces(user, mounts)
    )
    return _mounted(record, tree, upper, place, directory, lock)


def _mounted(
    record: Record, tree: int, above: int, place: JailLocation, directory: Path, lock: int
) -> WorkspaceMount:
    if record.mode == "overlay":
        return WorkspaceMount(record, Directory(tree), Directory(above), place, directory, lock)
    return WorkspaceMount(record, Directory(tree), None, place, directory, lock, copy=Directory(above))


def _as_root(
    home: Home, directory: Path, lowers: Sequence[Path], record: Record, lock: int
) -> WorkspaceMount:
    """Mount with mapped ids: the jail's user owns the layers there, and the owner does on disk."""
    identity = claim_identity()
    try:
        fds = _in_own_thread(lambda: _mount_as_root(directory, lowers, record, identity))
    except BaseException:
        identity.release()
        raise
    mounts, tree, upper = fds
    written = _host_path_of_changes(directory, record, upper)
    place = JailLocation(STAGE / "workspace", written, Namespaces(None, mounts), identity)
    return _mounted(record, tree, upper, place, directory, lock)


def _mount_as_root(directory: Path, lowers: Sequence[Path], record: Record, identity: Identity) -> list[int]:
    owner = directory.stat()
    # Files that root creates, such as the whiteouts of overlayfs, need a fixed owner on disk, too: files of
    # an unmapped owner cannot be removed.
    uids = [(owner.st_uid, identity.uid), (HOST_ON_DISK, KERNEL_ROOT)]
    gids = [(owner.st_gid, identity.gid), (HOST_ON_DISK, KERNEL_ROOT)]
    changes, size = _memory_options(record)
    ids = user_namespace(uids, gids)
    fds: list[int] = []
    try:
        with own_mount_namespace() as stage:
            below = [stage / f"lower{number}" for number in range(len(lowers))]
            for path in (*below, stage / "changes", stage / "workspace"):
                path.mkdir()
            for lower, target in zip(lowers, below, strict=True):
                attach(lower, target, ids, writable=False)
            attach(directory, stage / "changes", ids)
            above = stage / "changes" / changes
            if size:
                mount("tmpfs", above, size)
                (above / "upper").mkdir()
                (above / "work").mkdir()
                _copy_layer(stage / "changes/upper", above / "upper")
            top = above / "upper" if record.mode == "overlay" else stage / "changes/tree"
            layers = f"lowerdir={':'.join(map(str, below))},upperdir={top},workdir={above}/work"
            mount("overlay", stage / "workspace", f"{layers},{MOUNT_OPTIONS}")
            fds.append(os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))
            fds.append(os.open(stage / "workspace", PATH_ONLY))
            # The host uses the unmapped owners.
            fds.append(os.open(top if size else directory / top.name, PATH_ONLY))
            return fds
    except BaseException:
        for fd in fds:
            os.close(fd)
        raise
    finally:
        os.close(ids)


def _save_as_root(mounts: int) -> None:
    with in_mount_namespace(mounts):
        _copy_layer(STAGE / "changes/memory/upper", STAGE / "changes/upper.saved")


def _memory_options(record: Record) -> tuple[str, str]:
    """The directory of the changes, and the tmpfs options if they are in memory."""
    if record.storage == "disk":
        return "", ""
    return "memory/", f"size={record.quota_bytes},nr_inodes={record.quota_files + SPARE_INODES},mode=0755"


def _host_path_of_changes(directory: Path, record: Record, upper: int) -> Path:
    """The host path of the changes; for memory, only the descriptor has a path."""
    if record.storage == "memory":
        return Path(f"/proc/self/fd/{upper}")
    return directory / ("upper" if record.mode == "overlay" else "tree")


def _copy_layer(source: Path, target: Path, prefix: Sequence[str] = ()) -> None:
    """Copy an upper layer with the attributes of overlayfs."""
    words = [*prefix, "/bin/cp", "-a", "--", f"{source}/.", f"{target}/"]
    ran = subprocess.run(words, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if ran.returncode != 0:
        lines = ran.stderr.decode(errors="replace").strip().splitlines() or ["no reason given"]
        raise Unavailable(f"Changes in memory cannot be copied: {lines[-1]}. Free disk space and retry.")


def _in_own_thread(work: Callable[[], Result]) -> Result:
    """Run work in a new thread, because it changes the namespaces of its thread."""
    result: Future[Result] = Future()

    def run() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001 (raised by `result`)
            result.set_exception(error)

    thread = threading.Thread(target=run, name="hutch-mount")
    thread.start()
    thread.join()
    return result.result()
