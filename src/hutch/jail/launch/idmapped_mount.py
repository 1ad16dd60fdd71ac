"""A directory whose owner appears as the jail's user, by an idmapped mount.

Root works on a directory in place, yet the jail never runs as root nor as the owner. An
idmapped mount swaps the two ids at the mount: files created by the jail's uid belong to
the owner on disk, and nothing has to be copied or chowned.

The mount is made in a mount namespace of the calling thread, so it ends with the jail
and nothing remains on the host, whatever crashes.
"""

import ctypes
import os
import platform
import stat
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hutch.domain.errors import Unavailable

CLONE_NEWNS, CLONE_FS = 0x00020000, 0x00000200
MS_REC, MS_SLAVE, MS_NOSUID, MS_NODEV, MS_BIND = 16384, 1 << 19, 2, 4, 4096
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
MOVE_MOUNT_F_EMPTY_PATH = 4
MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_IDMAP = 0x1, 0x2, 0x4, 0x00100000
STAGE = Path("/run/hutch")  # the mount point; stays empty for other processes
REACHABLE = Path("/run/hutch-reachable")  # another one, so that the first stays visible

_libc = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@contextmanager
def idmapped(directories: Sequence[Path], *, uid: int, gid: int) -> Iterator[list[Path]]:
    """Make directories appear to this thread, and to what it starts, as owned by `uid` and `gid`.

    All but the first are read-only. Restores the thread's mount namespace in the end. The thread must not
    be shared with other work.
    """
    with own_mount_namespace() as stage:
        names = ["workspace", *(f"beside-{number}" for number in range(1, len(directories)))]
        targets = [stage / name for name in names]
        for directory, target in zip(directories, targets, strict=True):
            owner = directory.stat()
            target.mkdir()
            ids = user_namespace([(owner.st_uid, uid)], [(owner.st_gid, gid)])
            try:
                attach(directory, target, ids, writable=target is targets[0])
            finally:
                os.close(ids)
        yield targets


@contextmanager
def reachable(directories: Sequence[Path]) -> Iterator[list[Path]]:
    """Make directories that lie in private ones reachable for this thread, and what it starts. Their own
    permissions stay as they are. Restores the thread's mount namespace in the end."""
    with own_mount_namespace(REACHABLE) as stage:
        targets = [stage / str(number) for number in range(len(directories))]
        for directory, target in zip(directories, targets, strict=True):
            target.mkdir()
            bound = _libc.mount(bytes(directory), bytes(target), None, MS_BIND | MS_REC, None)
            _check(bound, f"mount {directory}")
        yield targets


def in_private_directory(path: Path) -> bool:
    """True if only root can reach it: a directory above it is closed to others."""
    try:
        return any(not above.stat().st_mode & stat.S_IXOTH for above in path.parents)
    except FileNotFoundError:  # the jail's start reports it
        return False


@contextmanager
def own_mount_namespace(stage: Path = STAGE) -> Iterator[Path]:
    """A mount namespace for this thread, with an empty directory to mount on. A descriptor of the
    namespace keeps its mounts; what the host mounts or unmounts later happens there too."""
    with _restored_namespace():
        _check(_libc.unshare(CLONE_NEWNS), "unshare the mount namespace")
        _check(_libc.mount(b"none", b"/", None, MS_REC | MS_SLAVE, None), "make mounts private")
        stage.mkdir(mode=0o711, exist_ok=True)
        mount("tmpfs", stage, "mode=0711,size=64k")
        yield stage


@contextmanager
def in_mount_namespace(namespace: int) -> Iterator[None]:
    """Move this thread into a mount namespace for the block."""
    with _restored_namespace():
        _check(_libc.unshare(CLONE_FS), "separate the root directory of one thread")
        _check(_libc.setns(namespace, CLONE_NEWNS), "enter a mount namespace")
        yield


@contextmanager
def _restored_namespace() -> Iterator[None]:
    original = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        restored = _libc.setns(original, CLONE_NEWNS)
        os.close(original)
        _check(restored, "return to the mount namespace")


def mount(kind: str, target: Path, options: str) -> None:
    """Mount a file system without devices and set-id programs."""
    flags = MS_NOSUID | MS_NODEV
    done = _libc.mount(b"hutch", bytes(target), kind.encode(), flags, options.encode())
    _check(done, f"mount {kind}")


def attach(directory: Path, target: Path, ids: int, *, writable: bool = True) -> None:
    """Mount `directory` at `target` as well, with owners mapped by the user namespace."""
    tree = _libc.syscall(OPEN_TREE, AT_FDCWD, bytes(directory), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    _check(tree, f"open {directory} as a mount")
    try:
        flags = MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV
        attributes = MountAttributes(set=flags | (0 if writable else MOUNT_ATTR_RDONLY), userns_fd=ids)
        size = ctypes.sizeof(attributes)
        done = _libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(attributes), size)
        if done != 0:
            reason = os.strerror(ctypes.get_errno())
            raise Unavailable(
                f"Root cannot use '{directory}' in place: its file system has no idmapped mounts "
                f"({reason}, kernel {platform.release()}). Put it on ext4, xfs, btrfs or tmpfs, "
                f"or run Hutch as the user who owns it."
            )
        moved = _libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, bytes(target), MOVE_MOUNT_F_EMPTY_PATH)
        _check(moved, f"mount {directory}")
    finally:
        os.close(tree)


def user_namespace(uids: Sequence[tuple[int, int]], gids: Sequence[tuple[int, int]]) -> int:
    """A descriptor of a user namespace, without processes, that maps ids on disk to visible ids."""
    # A separate process must make it: a process with threads cannot.
    try:
        holder = subprocess.Popen(
            ["/usr/bin/unshare", "--user", "/bin/cat"],
            env={},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
    except FileNotFoundError:
        raise Unavailable(
            "/usr/bin/unshare is missing. Install it: sudo apt-get install -y util-linux"
        ) from None
    with holder:
        assert holder.stdin and holder.stdout
        try:
            holder.stdin.write(b"?")
            if holder.stdout.read(1) != b"?":  # answered from inside the namespace
                raise Unavailable("Root cannot make a user namespace here. `hutch doctor` shows why.")
            proc = Path(f"/proc/{holder.pid}")
            (proc / "uid_map").write_text("".join(f"{disk} {seen} 1\n" for disk, seen in uids))
            (proc / "gid_map").write_text("".join(f"{disk} {seen} 1\n" for disk, seen in gids))
            return os.open(proc / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(
                f"Root may not act for uid {uids[0][0]} and {uids[0][1]} here: {error.strerror}. "
                "Run Hutch as an ordinary user, or give it CAP_SETUID and CAP_SETGID."
            ) from error
        finally:
            holder.kill()


def _check(result: int, what: str) -> None:
    if result < 0:
        reason = os.strerror(ctypes.get_errno())
        raise Unavailable(
            f"Cannot {what} as root: {reason}. Run Hutch as an ordinary user, or give it CAP_SYS_ADMIN."
        )
