"""The personas of an installation: those that come with Hutch, and the user's own."""

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hutch.agent.persona import (
    DEFAULT,
    MAX_BYTES,
    Persona,
    ReadFile,
    built_in,
    load_persona,
    parse_persona,
    render_persona,
)
from hutch.agent.tools.builtin import built_in_tools
from hutch.agent.tools.session_tool_registry import ToolRegistry
from hutch.domain.errors import BadRequest, HutchError, NotFound
from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.system.atomic_file import replace_file
from hutch.system.lazy_dataclass import dataclass


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


def is_own(name: str, folder: Path | None) -> bool:
    """True if the installation has a file for this persona: a new one, or one that replaces a built-in."""
    return folder is not None and (folder / f"{name}.md").is_file()


def write_persona(name: str, front: Mapping[str, Any], prompt: str, folder: Path) -> Persona:
    """Write a persona of the installation, if it is valid. Blocks the thread."""
    text = render_persona(front, prompt)
    if len(text.encode()) > MAX_BYTES:
        raise BadRequest(f"Persona '{name}' is larger than {MAX_BYTES // 1024} KiB. Shorten its prompt.")
    persona = parse_persona(name, text, tuple(built_in_tools().names))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(folder / f"{name}.md", text.encode(), mode=0o600, durable=True)
    return persona


def delete_persona(name: str, folder: Path) -> None:
    """Delete a persona of the installation; a built-in one that it replaced is used again."""
    if not is_own(name, folder):
        built = " It comes with Hutch and cannot be deleted." if name in built_in() else ""
        raise NotFound(f"The installation has no persona '{name}' of its own.{built}")
    (folder / f"{name}.md").unlink()


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The model of a persona, and options of its replies."""

    model: str | None = None
    generation: Generation = NO_GENERATION


def find_model_options(name: str, folder: Path | None) -> ModelOptions:
    """Those of a persona of the installation; none for one that only the repository may have."""
    try:
        persona = find_persona(name, folder)
    except NotFound:
        return ModelOptions()
    return ModelOptions(persona.model, persona.generation)


def find_persona(name: str, folder: Path | None, tools: ToolRegistry | None = None) -> Persona:
    """A persona by name. Outside a session, its tools are among the built-in ones."""
    return load_persona(name, known_tools=(tools or built_in_tools()).names, folder=folder)


@dataclass(frozen=True, slots=True)
class RunPersonas:
    """The personas of runs in a workspace."""

    folder: Path
    default: str
    named_by: str = ""  # the file of the repository that names the default; empty: the installation does

    def load(self, name: str, tools: ToolRegistry, read: ReadFile) -> Persona:
        """A persona with the repository's additions; the default one when `name` is empty.

        A persona that a repository chooses may do no more than the default persona of Hutch.
        """
        load = partial(
            load_persona, known_tools=tools.names, folder=self.folder if self.folder.is_dir() else None
        )
        if name or not self.named_by:
            return load(name or self.default, read=read)
        try:
            return load(self.default, read=read).narrowed_to(load(DEFAULT))
        except NotFound:
            raise NotFound(
                f"There is no persona '{self.default}', which '{self.named_by}' names. "
                "Choose another: --persona NAME."
            ) from None
