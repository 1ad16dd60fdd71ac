"""Paths that are like one that does not exist, and the next step, for a model that guessed a path."""

import asyncio
import difflib
import posixpath

from hutch.agent.tools.interface import Arguments, Context
from hutch.agent.tools.model_written_paths import inside
from hutch.domain.errors import HutchError, NotFound
from hutch.workspace.rule_based_search_filter import IsHidden
from hutch.workspace.workspace import Workspace

MAX_LISTED = 5000  # paths of the workspace that are compared
MAX_NAMES = 2000  # different names that are compared
MAX_NAME_CHARS = 100  # comparing takes quadratic time
MAX_NEAR = 5
MIN_LIKENESS = 0.6


async def find_near_paths(args: Arguments, context: Context) -> str:
    """Sentences about the first path of a call that does not exist; empty if all of them do."""
    searched, touched = getattr(args, "searched", None), getattr(args, "touched", None)
    named = (searched(),) if callable(searched) else touched() if callable(touched) else ()
    workspace = context.workspace
    try:
        for path in (inside(each, context) for each in named):
            if await _is_missing(path, workspace):
                hidden = context.hides("glob", "") if context.hides else None
                near = await similar_paths(path, workspace, hidden)
                return f"{near}{await _next_step(path.rstrip('/'), workspace)}"
    except HutchError:
        return ""  # the path leads out of the workspace, or nothing can be listed
    return ""


async def similar_paths(path: str, workspace: Workspace, hidden: IsHidden | None = None) -> str:
    """A sentence with paths like one that does not exist; empty if there are none."""
    page = await workspace.entries(recursive=True, ignores=True, limit=MAX_LISTED)
    found = [entry.path for entry in page.entries if hidden is None or not hidden(entry.path)]
    near = await asyncio.to_thread(_near, posixpath.basename(path.rstrip("/")), found)
    return f"Similar paths: {', '.join(near)}. " if near else ""


async def _is_missing(path: str, workspace: Workspace) -> bool:
    try:
        await workspace.stat(path)
    except NotFound:
        return True
    return False


async def _next_step(path: str, workspace: Workspace) -> str:
    directory, name = posixpath.split(path)
    while directory and await _is_missing(directory, workspace):
        directory = posixpath.dirname(directory)
    where = f"list_directory '{directory}'" if directory else "list_directory"
    return f"{where} shows what is there; glob '**/{name}*' searches everywhere."


def _near(name: str, found: list[str]) -> list[str]:
    """Paths with the same name, then those with a similar one."""
    names: dict[str, list[str]] = {}
    for each in found:
        names.setdefault(posixpath.basename(each), []).append(each)
    short = [each for each in names if len(each) <= MAX_NAME_CHARS][:MAX_NAMES]
    same = [each for each in names if each.lower() == name.lower()]
    alike = difflib.get_close_matches(name[:MAX_NAME_CHARS], short, MAX_NEAR, MIN_LIKENESS)
    ordered = [path for each in dict.fromkeys([*same, *alike]) for path in names[each]]
    return ordered[:MAX_NEAR]
