"""Paths as models write them.

A name of a file may be no text. What is no letter of it is shown as `\\xff`, since no
log, provider or client takes it otherwise, and such a name can be told back.
"""

import os
import re

from hutch.agent.tools.interface import Context
from hutch.domain.errors import BadRequest, Denied, NotFound

HALVES = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile(r"(\\x[89a-f][0-9a-f])")


def inside(path: str, context: Context) -> str:
    """A path relative to the workspace, also when it is given as commands in the jail see it."""
    for root in (context.jail.workspace, *context.jail.policy.also_at):
        if path == root or path.startswith(f"{root}/"):
            path = path[len(root) :].lstrip("/")
            break
    return path.removeprefix("./") if path != "." else ""


async def existing(path: str, context: Context) -> str:
    """The same, also when it is given as `legible` shows it and nothing has that very name."""
    path = inside(path, context)
    meant = _unescaped(path)
    if meant == path or await _exists(path, context) or not await _exists(meant, context):
        return path
    return meant


async def really(path: str, context: Context) -> str:
    """The same without links, as rules and searches want it."""
    roots = (context.jail.workspace, *context.jail.policy.also_at)
    return await context.workspace.resolve_links(await existing(path, context), roots)


def legible(text: str) -> str:
    """A text that everybody takes: halves of letters are joined, and those that are alone told by number."""
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return HALVES.sub(_number, joined)


def _number(half: re.Match[str]) -> str:
    code = ord(half[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _unescaped(path: str) -> str:
    """What `legible` may have been given, and only that. `\\x61`, and what would make a letter, stay as they
    are: rules about paths have seen the name as it is written, so there must be one way to write it."""
    parts = ESCAPED.split(path)
    data = b"".join(
        bytes([int(part[2:], 16)]) if place % 2 else os.fsencode(part) for place, part in enumerate(parts)
    )
    meant = os.fsdecode(data)
    return meant if legible(meant) == path else path


async def _exists(path: str, context: Context) -> bool:
    try:
        await context.workspace.stat(path)
    except (NotFound, Denied, BadRequest):
        return False
    return True
