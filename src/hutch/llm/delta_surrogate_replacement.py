"""Lone surrogates: JSON can express these halves of characters, but UTF-8 cannot."""

import json
from dataclasses import replace

from hutch.llm.interface import CallArguments, Delta, Finish, Text, Thinking


def replace_lone_surrogates(delta: Delta) -> Delta:
    """A delta that can be encoded as UTF-8; nearly always the same one."""
    match delta:
        case Text(text) | Thinking(text) | CallArguments(text=text) if not _is_encodable(text):
            return replace(delta, text=text.encode(errors="replace").decode())
        case Finish() if delta.opaque and not _is_encodable(json.dumps(delta.opaque, ensure_ascii=False)):
            return Finish(delta.reason)  # providers refuse a modified thought
    return delta


def _is_encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
