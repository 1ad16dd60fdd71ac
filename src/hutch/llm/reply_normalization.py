"""Normalises providers' calls and token counts: unique ids, arguments as objects, tokens counted once."""

import json
import re
from collections.abc import Mapping
from typing import Any

from hutch.llm.interface import Call, FromModel, Request, Usage

MAX_ID_CHARS = 56
_USABLE = re.compile(rf"[\w.:-]{{1,{MAX_ID_CHARS}}}", re.ASCII)


class CallIds:
    """Unique ids for the calls of a conversation, since some servers repeat ids or send none."""

    def __init__(self, request: Request) -> None:
        self._used = {
            call.id
            for message in request.messages
            if isinstance(message, FromModel)
            for call in message.calls
        }

    def take(self, server_id: str | None) -> str:
        """The server's id, if it is valid and unused, or else a new one."""
        usable = server_id if server_id and _USABLE.fullmatch(server_id) else ""
        number, id_ = len(self._used), usable
        while not id_ or id_ in self._used:
            id_ = f"{usable or 'call'}_{number}"
            number += 1
        self._used.add(id_)
        return id_


class Meter:
    """Turns a server's repeated totals into increments, so that a broken reply is counted too."""

    def __init__(self) -> None:
        self._total = Usage()

    def read(self, total: Usage) -> Usage | None:
        before = self._total
        fresh = Usage(
            max(0, total.input - before.input),
            max(0, total.cached - before.cached),
            max(0, total.cache_written - before.cache_written),
            max(0, total.output - before.output),
        )
        self._total = before + fresh
        return None if fresh == Usage() else fresh


def json_object(call: Call) -> Mapping[str, Any]:
    """A call's arguments as an object, as providers require; invalid ones become text in an object."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {"invalid": call.arguments}
    return value if isinstance(value, dict) else {"invalid": call.arguments}


def json_arguments(call: Call) -> str:
    """The same as text, exactly as the model wrote it if it is valid."""
    value = json_object(call)
    return json.dumps(value) if not call.arguments or value == {"invalid": call.arguments} else call.arguments
