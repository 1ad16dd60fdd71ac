"""What a session works at while it is open."""

from dataclasses import dataclass, field

from hutch.jail.jailed import Jailed
from hutch.jail.shell.shells import Shells
from hutch.sessions.told import Told
from hutch.workspace.workspace import Workspace


@dataclass(slots=True)
class Desk:
    """A workspace, the jail on it and the shells in that; whoever opened it closes it."""

    workspace: Workspace
    jail: Jailed
    shells: Shells
    told: Told = field(default_factory=Told)  # by the jail
