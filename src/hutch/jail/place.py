"""Where a jail works: a directory, and the namespaces in which it is that directory.

Most are plain directories of the host. One that is put together from layers
exists only in namespaces of its own, which a descriptor keeps; bubblewrap is then
started in there, and everything else is as it always is.
"""

from dataclasses import dataclass
from pathlib import Path

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


def in_place(workspace: "Path | Place") -> Place:
    """A plain directory of the host, used where it is."""
    if isinstance(workspace, Place):
        return workspace
    directory = workspace.resolve()
    return Place(directory, directory)
