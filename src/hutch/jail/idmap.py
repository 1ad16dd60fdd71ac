"""A directory seen through other eyes: its owner appears as the jail's user.

Root works on a directory in place, yet the jail never runs as root nor as the
owner. An idmapped mount swaps the two ids at the mount: what the jail's uid
creates belongs to the owner on disk, and nothing has to be copied or chowned.

The mount is made in a mount namespace of the calling thread, so it is gone with
the jail and nothing is left on the host, whatever crashes.
"""

import ctypes
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hutch.domain.errors import Unavailable

CLONE_NEWNS = 0x00020000
MS_REC, MS_PRIVATE, MS_NOSUID, MS_NODEV = 16384, 1 << 18, 2, 4
OPEN_TREE, MOVE_MOUNT, MOUNT_SETATTR = 428, 429, 442  # the same on every architecture
OPEN_TREE_CLONE, OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
AT_FDCWD, AT_EMPTY_PATH = -100, 0x1000
MOVE_MOUNT_F_EMPTY_PATH = 4
MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV, MOUNT_ATTR_IDMAP = 0x2, 0x4, 0x00100000
STAGE = Path("/run/hutch")  # a place to mount on; stays empty as others see it

_libc = ctypes.CDLL(None, use_errno=True)


class MountAttributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


@contextmanager
def mapped(directory: Path, *, uid: int, gid: int) -> Iterator[Path]:
    """Show `directory` to this thread, and to what it starts, as owned by `uid` and `gid`.

    Leaves the thread's mount namespace as it was. Only for a thread that is nobody else's.
    """
    owner = directory.stat()
    home = os.open("/proc/thread-self/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    try:
        _check(_libc.unshare(CLONE_NEWNS), "unshare the mount namespace")
        _check(_libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None), "make mounts private")
        STAGE.mkdir(mode=0o711, exist_ok=True)
        stage = str(STAGE).encode()
        _check(_libc.mount(b"hutch", stage, b"tmpfs", MS_NOSUID | MS_NODEV, b"mode=0711,size=64k"), "mount")
        target = STAGE / "workspace"
        target.mkdir()
        _attach(directory, target, uids=(owner.st_uid, uid), gids=(owner.st_gid, gid))
        yield target
    finally:
        back = _libc.setns(home, CLONE_NEWNS)
        os.close(home)
        _check(back, "return to the mount namespace")


def _attach(directory: Path, target: Path, *, uids: tuple[int, int], gids: tuple[int, int]) -> None:
    tree = _libc.syscall(OPEN_TREE, AT_FDCWD, bytes(directory), OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC)
    _check(tree, f"open {directory} as a mount")
    try:
        userns = _user_namespace(uids, gids)
        try:
            attributes = MountAttributes(
                set=MOUNT_ATTR_IDMAP | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV, userns_fd=userns
            )
            size = ctypes.sizeof(attributes)
            done = _libc.syscall(MOUNT_SETATTR, tree, b"", AT_EMPTY_PATH, ctypes.byref(attributes), size)
        finally:
            os.close(userns)
        if done != 0:
            reason = os.strerror(ctypes.get_errno())
            raise Unavailable(
                f"'{directory}' cannot be used in place by root: its file system has no idmapped mounts "
                f"({reason}, kernel {platform.release()}). Put it on ext4, xfs, btrfs or tmpfs, "
                f"or run Hutch as the user who owns it."
            )
        moved = _libc.syscall(MOVE_MOUNT, tree, b"", AT_FDCWD, bytes(target), MOVE_MOUNT_F_EMPTY_PATH)
        _check(moved, f"mount {directory}")
    finally:
        os.close(tree)


def _user_namespace(uids: tuple[int, int], gids: tuple[int, int]) -> int:
    """A descriptor of a user namespace that maps one id to another; nobody lives in it."""
    # A process of its own has to make it: a process with threads cannot.
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
                raise Unavailable("Root cannot make a user namespace here. `hutch doctor` tells why.")
            proc = Path(f"/proc/{holder.pid}")
            (proc / "uid_map").write_text(f"{uids[0]} {uids[1]} 1\n")
            (proc / "gid_map").write_text(f"{gids[0]} {gids[1]} 1\n")
            return os.open(proc / "ns/user", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise Unavailable(
                f"Root may not act for uid {uids[0]} and {uids[1]} here: {error.strerror}. "
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
