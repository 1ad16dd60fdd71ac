"""The persona of a run, from the settings."""

from hutch.agent.persona import DEFAULT, Persona, ReadFile, load_persona
from hutch.agent.tools.registry import ToolRegistry
from hutch.settings import LoadedSettings


def load_for_run(loaded: LoadedSettings, name: str, tools: ToolRegistry, read: ReadFile) -> Persona:
    """The persona of a run, by default that of the settings, with the repository's additions.

    A persona that a repository's settings choose may do no more than the default persona.
    """
    own = loaded.paths.personas
    where = own if own.is_dir() else None
    found = load_persona(name or loaded.settings.persona, known_tools=tools.names, folder=where, read=read)
    if not name and loaded.is_from_repository("persona"):
        found = found.narrowed_to(load_persona(DEFAULT, known_tools=tools.names, folder=where))
    return found
