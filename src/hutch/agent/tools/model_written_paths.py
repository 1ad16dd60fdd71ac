"""Paths as models write them.

A file name may not be valid UTF-8. Its other bytes are shown as `\\xff`, since logs,
providers and clients accept only text; models can use such a name in a call.
"""

import os
import re

from hutch.agent.tools.interface import Context
from hutch.domain.errors import BadRequest, Denied, NotFound

SURROGATES = re.compile("[\ud800-\udfff]")
ESCAPED = re.compile(r"(\\x[89a-f][0-9a-f])")


def inside(path: str, context: Context) -> str:
    """A path relative to the workspace; `path` may also be a path inside the jail."""
    for root in (context.jail.workspace, *context.jail.policy.also_at):
        if path == root or path.startswith(f"{root}/"):
            path = path[len(root) :].lstrip("/")
            break
    return path.removeprefix("./") if path != "." else ""


async def existing(path: str, context: Context) -> str:
    """The same; `path` may also be escaped by `escape_surrogates`, unless a file has that very name."""
    path = inside(path, context)
    unescaped = _unescaped(path)
    if unescaped == path or await _exists(path, context) or not await _exists(unescaped, context):
        return path
    return unescaped


async def resolve_path(path: str, context: Context) -> str:
    """The same without links, as rules and searches need it."""
    roots = (context.jail.workspace, *context.jail.policy.also_at)
    return await context.workspace.resolve_links(await existing(path, context), roots)


def escape_surrogates(text: str) -> str:
    """A text without surrogates: pairs are joined, lone ones escaped."""
    if text.isascii():
        return text
    joined = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return SURROGATES.sub(_escape, joined)


def _escape(surrogate: re.Match[str]) -> str:
    code = ord(surrogate[0])
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else f"\\u{code:04x}"


def _unescaped(path: str) -> str:
    """Undo `escape_surrogates`, and nothing else. `\\x61`, and escapes that form a valid character, stay:
    rules compare the written path, so each file must have exactly one."""
    parts = ESCAPED.split(path)
    data = b"".join(
        bytes([int(part[2:], 16)]) if index % 2 else os.fsencode(part) for index, part in enumerate(parts)
    )
    unescaped = os.fsdecode(data)
    return unescaped if escape_surrogates(unescaped) == path else path


async def _exists(path: str, context: Context) -> bool:
    try:
        await context.workspace.stat(path)
    except (NotFound, Denied, BadRequest):
        return False
    return True
