"""Skills: instructions for one kind of work, in `SKILL.md` files, which the agent loads when it needs them.

The prompt has only names and descriptions. Skills of a repository are its text, between marks; a skill that
comes with Hutch cannot be replaced by one of the same name.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from importlib import resources

from hutch.agent.text_for_model import strip_escapes
from hutch.agent.untrusted_repository_text import marked, split_front_matter
from hutch.domain.errors import HutchError
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.workspace import Workspace

FOLDERS = (".agents/skills", ".claude/skills")  # the first that has a name wins
FILE = "SKILL.md"
SKILL = "skill"  # the tool that loads one
NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
MAX_SKILLS = 30
MAX_DESCRIPTION_CHARS = 300
MAX_LIST_CHARS = 5000
MAX_FILE_BYTES = 256 * 1024
HEAD = "Skills: instructions for some kinds of work. Load one with the tool skill before you do such work."


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill, as the prompt lists it."""

    name: str
    description: str
    path: str = ""  # in the workspace; empty: it comes with Hutch


@cache
def built_in_skills() -> dict[str, str]:
    """The skills that come with Hutch: their files, by name."""
    folder = resources.files("hutch.agent") / "builtin_skills"
    return {each.name: (each / FILE).read_text() for each in folder.iterdir() if each.is_dir()}


async def find_skills(workspace: Workspace, paths: Iterable[str]) -> list[Skill]:
    """The skills of a repository with these files. Files that are no skill are left out."""
    found: dict[str, Skill] = {}
    for folder in FOLDERS:
        for path in sorted(paths):
            name = path.removeprefix(f"{folder}/").removesuffix(f"/{FILE}")
            if path != f"{folder}/{name}/{FILE}" or not NAME.fullmatch(name):
                continue
            if name in found or name in built_in_skills() or len(found) == MAX_SKILLS:
                continue
            if (description := await _describe(workspace, path, name)) is not None:
                found[name] = Skill(name, description, path)
    return list(found.values())


async def _describe(workspace: Workspace, path: str, name: str) -> str | None:
    try:
        raw = await workspace.read_small(path)
    except HutchError:  # a link that leads outside, a directory, or too large
        return None
    if raw is None or len(raw) > MAX_FILE_BYTES:
        return None
    front, _ = split_front_matter(raw.decode(errors="replace"))
    if front.get("name") != name or not isinstance(front.get("description"), str):
        return None
    return _one_line(front["description"])


def list_skills(skills: Sequence[Skill], clean: Callable[[str], str] = str) -> str:
    """The part of the prompt that names the skills of a repository; empty if it has none."""
    if not skills:
        return ""
    lines = "\n".join(f"{each.name}: {clean(each.description)}" for each in skills)
    return f"{HEAD}\n{marked('skills of the repository', lines, max_chars=MAX_LIST_CHARS)}"


def own_skills() -> str:
    """The part of the prompt that names the skills of Hutch."""
    descriptions = {
        name: _one_line(str(split_front_matter(text)[0].get("description", "")))
        for name, text in sorted(built_in_skills().items())
    }
    return f"Skills of Hutch: {'; '.join(f'{name}: {text}' for name, text in descriptions.items())}"


def _one_line(text: str) -> str:
    return " ".join(strip_escapes(text).split())[:MAX_DESCRIPTION_CHARS]
