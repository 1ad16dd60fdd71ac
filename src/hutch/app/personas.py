"""The personas of an installation: those that come with Hutch, and the user's own."""

from pathlib import Path

from hutch.agent.persona import Persona, built_in, load_persona
from hutch.agent.tools.all import NAMES
from hutch.domain.errors import HutchError
from hutch.settings import Loaded


def every_persona(loaded: Loaded) -> list[Persona]:
    """By name; a file of the user's that makes no sense is left out, and said so when it is asked for."""
    own = folder(loaded)
    names = set(built_in()) | {file.stem for file in own.glob("*.md")}
    found = []
    for name in sorted(names):
        try:
            found.append(find_persona(loaded, name))
        except HutchError:
            continue
    return found


def find_persona(loaded: Loaded, name: str) -> Persona:
    return load_persona(name, known_tools=NAMES, folder=folder(loaded))


def folder(loaded: Loaded) -> Path:
    """Where the user's own are; it need not be there."""
    return Path(loaded.paths.config_file).parent / "personas"
