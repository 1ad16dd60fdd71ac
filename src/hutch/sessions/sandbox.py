"""Where the commands of a session run while it is open."""

from dataclasses import dataclass

from hutch.jail.running_jail import Jailed
from hutch.jail.shell.shells import Shells
from hutch.workspace.workspace import Workspace


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A workspace, its jail and the shells in that jail. The code that opened it closes it."""

    workspace: Workspace
    jail: Jailed
    shells: Shells
