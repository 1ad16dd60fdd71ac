"""Letters that no file can hold, since JSON can name them though they are none: half of a pair."""

import json
from dataclasses import replace

from hutch.llm.interface import CallArguments, Delta, Finish, Text, Thinking


def writable(piece: Delta) -> Delta:
    """A piece of a reply that can be written down; the same one nearly always."""
    match piece:
        case Text(text) | Thinking(text) | CallArguments(text=text) if not _is_writable(text):
            return replace(piece, text=text.encode(errors="replace").decode())
        case Finish() if piece.opaque and not _is_writable(json.dumps(piece.opaque, ensure_ascii=False)):
            return Finish(piece.reason)  # a thought that is not as it was is of no use
    return piece


def _is_writable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
