"""The text of a prompt from the content blocks of an editor: text, links to files, and attached files."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

from hutch.domain.errors import BadRequest


def prompt_text(blocks: Sequence[Any], directory: str) -> str:
    """One text for the agent. Files are named by their paths in the workspace."""
    text = "".join(_text(block, directory) for block in blocks).strip()
    if not text:
        raise BadRequest("The prompt is empty. Describe the task.")
    return text


def _text(block: Any, directory: str) -> str:
    match block.type:
        case "text":
            return str(block.text)
        case "resource_link":
            return f"`{_place(block.uri, directory)}`"
        case "resource" if hasattr(block.resource, "text"):
            place, text = _place(block.resource.uri, directory), block.resource.text
            fence = "`" * max(3, _count_backticks(text) + 1)
            return f"\n\n{fence} {place}\n{text.rstrip()}\n{fence}\n"
        case "resource":
            raise BadRequest(
                f"{block.resource.uri} is not text. Name its path instead: the agent can read it."
            )
    raise BadRequest(f"A prompt of this agent has no content of the type {block.type}.")


def _place(uri: str, directory: str) -> str:
    """The path of a file in the workspace, with the lines that the address names; other addresses stay."""
    parts = urlsplit(uri)
    if parts.scheme not in ("file", ""):
        return uri
    path = unquote(parts.path)
    path = path.removeprefix(f"{directory}/") if path != directory else "."
    lines = parts.fragment.removeprefix("L").replace("-L", "-").replace(":", "-")
    return f"{path}:{lines}" if lines else path


def _count_backticks(text: str) -> int:
    """The length of the longest run of backticks; a fence must be longer."""
    longest = current = 0
    for char in text:
        current = current + 1 if char == "`" else 0
        longest = max(longest, current)
    return longest
