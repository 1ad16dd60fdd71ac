"""The persona of a run, from the settings."""

from functools import partial

from hutch.agent.persona import DEFAULT, Persona, ReadFile, load_persona
from hutch.agent.tools.tool_registry import ToolRegistry
from hutch.domain.errors import NotFound
from hutch.settings import LoadedSettings


def load_for_run(loaded: LoadedSettings, name: str, tools: ToolRegistry, read: ReadFile) -> Persona:
    """The persona of a run, by default that of the settings, with the repository's additions.

    A persona that a repository's settings choose may do no more than the default persona.
    """
    own = loaded.paths.personas
    where = own if own.is_dir() else None
    load = partial(load_persona, known_tools=tools.names, folder=where)
    if name or not loaded.is_from_repository("persona"):
        return load(name or loaded.settings.persona, read=read)
    chosen = loaded.settings.persona
    try:
        return load(chosen, read=read).narrowed_to(load(DEFAULT))
    except NotFound:
        origin = loaded.origins["persona"]
        raise NotFound(
            f"There is no persona '{chosen}', which '{origin}' names. Choose another: --persona NAME."
        ) from None
