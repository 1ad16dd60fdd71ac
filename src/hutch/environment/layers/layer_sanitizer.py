"""Makes a layer of the files that a build left behind.

Install scripts are hostile, and what they leave becomes part of later sessions, where overlayfs
reads it. So nothing that overlayfs, the host or a walk could trip over is kept: no attributes,
devices, pipes and sockets, no set-id bits, no directory that its owner cannot enter, no depth or
size beyond a limit. The input files and git's directory are removed, since a layer never holds what
the repository has, and everything outside the places of dependencies (`allowed_layer_paths.py`). It is
called after the jail is closed, so that nothing changes meanwhile.
"""

import os
import shutil
import stat
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import field
from pathlib import Path

from hutch.domain.errors import LimitReached
from hutch.environment.layers.allowed_layer_paths import LayerPaths
from hutch.jail.limits.disk_growth import MAX_DEPTH
from hutch.snapshots.confined_directory import remove_entry
from hutch.system.lazy_dataclass import dataclass

MAX_ENTRIES = 1_000_000
MAX_DROPPED = 20  # that are listed by name
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(slots=True)
class Sealed:
    """A tree that may become a layer."""

    roots: tuple[str, ...] = ()  # the topmost paths that no input is below
    bytes: int = 0  # on disk
    files: int = 0
    dropped: list[str] = field(default_factory=list)
    dropped_count: int = 0


def seal(
    tree: Path,
    inputs: Iterable[str],
    *,
    max_bytes: int,
    removed: Iterable[str] = (),
    outputs: LayerPaths | None = None,
) -> Sealed:
    """Check and clean a tree in place, without its inputs and the `removed` paths. Blocks the thread."""
    return _Seal(tree, set(inputs), max_bytes, set(removed), outputs or LayerPaths()).run()


class _Seal:
    def __init__(
        self, tree: Path, inputs: set[str], max_bytes: int, removed: set[str], outputs: LayerPaths
    ) -> None:
        self.tree, self.outputs = tree, outputs
        self.inputs, self.removed = inputs, removed
        self.parents = {parent for path in inputs for parent in _parents(path)}
        self.holders: set[str] = set()  # directories outside of roots that may have outputs below
        self.max_bytes = max_bytes
        self.result = Sealed()
        self.apparent_bytes = 0
        self.roots: list[str] = []
        self.links: dict[tuple[int, int], list[str]] = {}  # names of files with several, by inode
        self.link_counts: dict[tuple[int, int], int] = {}

    def run(self) -> Sealed:
        top = os.open(self.tree, DIRECTORY)
        try:
            os.fchmod(top, 0o755)
            _strip_attributes(f"/proc/self/fd/{top}", follow=True)
            self._walk(top, "", 0)
        finally:
            os.close(top)
        for identity, names in self.links.items():
            if len(names) < self.link_counts[identity]:
                for name in names:
                    _copy_in_place(self.tree / name)
        self.result.roots = tuple(sorted(self.roots))
        return self.result

    def _walk(self, fd: int, path: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise LimitReached(
                f"The set-up left directories more than {MAX_DEPTH} levels deep.",
                limit="environment.max_bytes",
            )
        is_own = path in self.parents or path in self.holders or not path  # it has inputs or outputs below
        for name in sorted(os.listdir(fd), key=os.fsencode):
            below = f"{path}/{name}" if path else name
            about = os.stat(name, dir_fd=fd, follow_symlinks=False)
            is_directory = stat.S_ISDIR(about.st_mode)
            if (is_own and name.lower() == ".git") or below in self.inputs or below in self.removed:
                remove_entry(fd, name)
                continue
            if not (is_directory or stat.S_ISREG(about.st_mode) or stat.S_ISLNK(about.st_mode)):
                self._drop(below)
                os.unlink(name, dir_fd=fd)
                continue
            if below in self.parents and not is_directory:  # it stands where an input was
                os.unlink(name, dir_fd=fd)
                continue
            if is_own and below not in self.parents:
                if self.outputs.keeps(below, is_file=stat.S_ISREG(about.st_mode)):
                    self.roots.append(below)
                elif is_directory and self.outputs.may_hold(below):
                    self.holders.add(below)
                else:
                    self._drop(f"{below}/" if is_directory else below)
                    remove_entry(fd, name)
                    continue
            self._clean(fd, name, below, about)
            if is_directory:
                inner = os.open(name, DIRECTORY, dir_fd=fd)
                try:
                    self._walk(inner, below, depth + 1)
                finally:
                    os.close(inner)
                if below in self.parents or below in self.holders:
                    with suppress(OSError):  # a build left something in it
                        os.rmdir(name, dir_fd=fd)

    def _clean(self, fd: int, name: str, path: str, about: os.stat_result) -> None:
        """Set mode and attributes of an entry, and count it."""
        mode = about.st_mode
        if not stat.S_ISLNK(mode):
            wanted = mode & 0o777 | (0o700 if stat.S_ISDIR(mode) else 0o200)
            os.chmod(name, wanted, dir_fd=fd)  # it is no link: nothing runs here any more
        _strip_attributes(f"/proc/self/fd/{fd}/{name}", follow=False)
        if stat.S_ISREG(mode):
            final = mode & 0o777
            if final & 0o200 == 0:
                os.chmod(name, final, dir_fd=fd)
            if about.st_nlink > 1:
                identity = (about.st_dev, about.st_ino)
                self.links.setdefault(identity, []).append(path)
                self.link_counts[identity] = about.st_nlink
                if len(self.links[identity]) > 1:
                    self._count(0, 0)
                    return
        self._count(about.st_blocks * 512, about.st_size if stat.S_ISREG(mode) else 0)

    def _count(self, on_disk: int, apparent: int) -> None:
        self.result.bytes += on_disk
        self.apparent_bytes += apparent
        self.result.files += 1
        if max(self.result.bytes, self.apparent_bytes) > self.max_bytes:
            raise LimitReached(
                f"The set-up installed more than {self.max_bytes >> 20} MiB, the limit of "
                "environment.max_bytes. Install less, or let the owner of this Hutch raise it.",
                limit="environment.max_bytes",
            )
        if self.result.files > MAX_ENTRIES:
            raise LimitReached(
                f"The set-up installed more than {MAX_ENTRIES:,} files.", limit="environment.max_bytes"
            )

    def _drop(self, path: str) -> None:
        self.result.dropped_count += 1
        if len(self.result.dropped) < MAX_DROPPED:
            self.result.dropped.append(ascii(path)[1:-1][:200])


def _parents(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[:count]) for count in range(1, len(parts))]


def _strip_attributes(path: str, *, follow: bool) -> None:
    """Remove all extended attributes: those of overlayfs would work as its own in a lower layer."""
    for name in os.listxattr(path, follow_symlinks=follow):
        os.removexattr(path, name, follow_symlinks=follow)


def _copy_in_place(path: Path) -> None:
    """Replace a file that is shared with something outside of the tree by a copy."""
    copy = path.with_name(f".hutch-{os.urandom(8).hex()}")
    shutil.copy2(path, copy, follow_symlinks=False)
    copy.replace(path)
