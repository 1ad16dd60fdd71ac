"""Decides in which section of a snapshot a file belongs.

The decision follows git's rules as far as they are content: `.gitignore` files, the
files of the base, and the names that git refuses. The rules that a directory inherits
from its parents are its context; the same context gives the same decisions.
"""

import hashlib
import os
import stat
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from hutch.snapshots.ignore_rules import IgnoreRules
from hutch.snapshots.snapshot_tree_layout import FILES, IGNORED, PRIVATE, is_refused_by_git
from hutch.snapshots.stat_cache import Listing


class Base(Protocol):
    """The initial content of a workspace."""

    @property
    def links(self) -> Mapping[str, bytes]:
        """Paths of submodules, and their commits."""
        ...

    def listing(self, path: str) -> Listing | None: ...

    def tracks(self, path: str, name: str) -> bool:
        """True if a file in the directory `path` is tracked, even if a rule ignores its name."""
        ...


class EmptyBase:
    """The base of a workspace that started empty."""

    links: Mapping[str, bytes] = {}

    def listing(self, path: str) -> Listing | None:
        return None

    def tracks(self, path: str, name: str) -> bool:
        return False


class Context(NamedTuple):
    """The rules for the files of a directory."""

    state: int  # FILES: the rules decide; IGNORED or PRIVATE: applies to everything below
    ignores: IgnoreRules
    rules: bytes  # a digest of the rules

    @classmethod
    def top(cls) -> "Context":
        return cls(FILES, IgnoreRules(), b"")

    @property
    def digest(self) -> bytes:
        """Equal for equal decisions."""
        return self.rules + bytes([self.state])

    def inside(self, path: str, text: bytes, blob: bytes) -> "Context":
        """The context in the directory `path`, which has a .gitignore of this text."""
        digest = hashlib.sha1(self.rules + os.fsencode(path) + b"\0" + blob, usedforsecurity=False).digest()
        return Context(self.state, self.ignores.enter(path, text), digest)

    def below(self, path: str, base: Base) -> tuple["Context", bytes | None]:
        """The context of the subdirectory `path`, and its commit if it is a submodule."""
        if self.state == PRIVATE:
            return self, None
        link = base.links.get(path)
        if link or is_refused_by_git(_name(path), plain=False):
            return self._replace(state=PRIVATE), link
        if self.state == FILES and self.ignores.match(path, True):
            return self._replace(state=IGNORED), None
        return self, None

    def section_of(self, path: str, mode: int, base: Base) -> int:
        """The section of the file or link `path` of this directory."""
        if self.state == PRIVATE or is_refused_by_git(_name(path), plain=not stat.S_ISLNK(mode)):
            return PRIVATE
        if self.state == IGNORED or self.ignores.match(path, False):
            above, _, name = path.rpartition("/")
            return FILES if base.tracks(above, name) else IGNORED
        return FILES


def _name(path: str) -> bytes:
    return os.fsencode(path[path.rfind("/") + 1 :])
