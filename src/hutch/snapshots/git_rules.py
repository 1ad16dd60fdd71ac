"""Where a file belongs in a snapshot: with what git would commit, or beside it.

Git's own rules decide, as far as they are content: `.gitignore` files, what the
base has, and the names that git refuses. What a directory inherits from those
above it is its context; as long as that is the same, so is every decision.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from hutch.snapshots.ignore_rules import IgnoreRules
from hutch.snapshots.stat_cache import Listing
from hutch.snapshots.tree_layout import FILES, IGNORED, PRIVATE, is_refused_by_git


class Base(Protocol):
    """What a workspace began as."""

    @property
    def links(self) -> Mapping[str, bytes]:
        """Paths that are other repositories, and their commits."""
        ...

    def listing(self, path: str) -> Listing | None: ...

    def tracks(self, path: str, name: str) -> bool:
        """Whether a file in the directory `path` is one of git's, whatever the rules say about its name."""
        ...


class EmptyBase:
    """The base of a workspace that began empty."""

    links: Mapping[str, bytes] = {}

    def listing(self, path: str) -> Listing | None:
        return None

    def tracks(self, path: str, name: str) -> bool:
        return False


class Context(NamedTuple):
    """What decides about the files of a directory."""

    state: int  # FILES: the rules decide; IGNORED or PRIVATE: all of it is
    ignores: IgnoreRules
    rules: bytes  # a digest of the rules

    @classmethod
    def top(cls) -> "Context":
        return cls(FILES, IgnoreRules(), b"")

    @property
    def digest(self) -> bytes:
        """The same for the same decisions."""
        return self.rules + bytes([self.state])

    def inside(self, path: str, text: bytes, blob: bytes) -> "Context":
        """The context in the directory `path`, which has a .gitignore of this text."""
        digest = hashlib.sha1(self.rules + os.fsencode(path) + b"\0" + blob, usedforsecurity=False).digest()
        return Context(self.state, self.ignores.enter(path, text), digest)

    def below(self, path: str, base: Base) -> tuple["Context", bytes | None]:
        """The context of the directory `path` below this one; the commit, if it is another repository."""
        if self.state == PRIVATE:
            return self, None
        link = base.links.get(path)
        if link or is_refused_by_git(_name(path), plain=False):
            return self._replace(state=PRIVATE), link
        if self.state == FILES and self.ignores.match(path, True):
            return self._replace(state=IGNORED), None
        return self, None

    def section_of(self, path: str, mode: int, base: Base) -> int:
        """Where the file or link `path` of this directory belongs."""
        if self.state == PRIVATE or is_refused_by_git(_name(path), plain=not stat.S_ISLNK(mode)):
            return PRIVATE
        if self.state == IGNORED or self.ignores.match(path, False):
            above, _, name = path.rpartition("/")
            return FILES if base.tracks(above, name) else IGNORED
        return FILES


def _name(path: str) -> bytes:
    return os.fsencode(path[path.rfind("/") + 1 :])
