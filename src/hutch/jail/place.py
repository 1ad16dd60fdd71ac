"""Where a jail works: a directory, and the namespaces in which it is that directory.

Most are plain directories of the host. One that is put together from layers
exists only in namespaces of its own, which a descriptor keeps; bubblewrap is then
started in there, and everything else is as it always is.
"""

import os
from dataclasses import dataclass
from pathlib import Path

from hutch.domain.errors import BadRequest
from hutch.jail.identity import Identity


@dataclass(frozen=True, slots=True)
class Namespaces:
    """Descriptors of namespaces; they belong to whoever made the place, who keeps them while it is used."""

    user: int | None  # None when root made it: root needs no user namespace to mount in
    mount: int


@dataclass(frozen=True, slots=True)
class Place:
    """A directory for a jail to work on."""

    directory: Path  # as seen in `namespaces`
    written: Path  # where, as the host sees it, what is written takes room
    namespaces: Namespaces | None = None
    identity: Identity | None = None  # who owns what is there; None lets the jail be whoever it likes
    beside: tuple[Path, ...] = ()  # directories that belong to it: seen where they are, and only to be read


def in_place(workspace: "str | os.PathLike[str] | Place") -> Place:
    """A plain directory of the host, used where it is."""
    if isinstance(workspace, Place):
        return workspace
    directory = as_path(workspace).resolve()
    return Place(directory, directory)


def as_path(workspace: str | os.PathLike[str]) -> Path:
    try:
        return Path(workspace)
    except TypeError:
        kind = type(workspace).__name__
        raise BadRequest(f"The workspace is of type {kind}. Give the path of a directory.") from None
