"""The personas of an installation: those that come with Hutch, and the user's own."""

from pathlib import Path

from hutch.agent.persona import Persona, built_in, load_persona
from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.tool_registry import ToolRegistry
from hutch.domain.errors import HutchError


def list_personas(folder: Path) -> list[Persona]:
    """All personas, by name. An invalid file of the user is omitted; `find_persona` reports its error."""
    names = set(built_in()) | {file.stem for file in folder.glob("*.md")}
    found = []
    for name in sorted(names):
        try:
            found.append(find_persona(name, folder))
        except HutchError:
            continue
    return found


def find_persona(name: str, folder: Path | None, tools: ToolRegistry | None = None) -> Persona:
    """A persona by name. Outside a session, its tools are among the built-in ones."""
    return load_persona(name, known_tools=(tools or built_in_tools()).names, folder=folder)
