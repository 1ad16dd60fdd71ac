"""Notes for agents in subdirectories: shown when the agent first works below their directory.

They come with the result of a tool call, so the prompt stays the same to the byte. The nearest file counts.
"""

import posixpath
from collections.abc import Iterable

from hutch.agent.system_prompt import NOTES
from hutch.agent.tools.interface import Context
from hutch.agent.untrusted_repository_text import PLAIN_PATH, marked

MAX_NOTES_CHARS = 4000
MAX_DEPTH = 12


async def find_nested_notes(paths: Iterable[str], context: Context) -> str:
    """The notes nearest to these paths that the model has not seen yet."""
    found: list[str] = []
    for path in paths:
        for directory in _directories(path, context.jail.workspace):
            near = await _notes_of(directory, context)
            if near is None:
                continue
            if near not in context.notes_seen:
                context.notes_seen.add(near)
                raw = await context.read_at_start(near) or b""
                text = context.redactor.redact(raw.decode(errors="replace"))
                found.append(marked(near, text, max_chars=MAX_NOTES_CHARS))
            break
    return "\n\n".join(found)


def _directories(path: str, root: str) -> list[str]:
    """The directories above a path, the nearest first, without the root of the workspace."""
    path = posixpath.normpath(path.removeprefix(f"{root}/"))
    if path.startswith(("/", "..")) or not PLAIN_PATH.fullmatch(path):
        return []
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(len(parts), 0, -1)][:MAX_DEPTH]


async def _notes_of(directory: str, context: Context) -> str | None:
    """The path of the notes in a directory, as it was when the session began; None if it has none."""
    if directory not in context.notes_of:
        names = [f"{directory}/{name}" for name in NOTES]
        present = [path for path in names if await context.read_at_start(path)]
        context.notes_of[directory] = present[0] if present else None
    return context.notes_of[directory]
