"""Calls as they come and go: ids that occur once, arguments that are an object, tokens counted once."""

import json
import re
from collections.abc import Mapping
from typing import Any

from hutch.llm.interface import Call, FromModel, Request, Usage

MAX_ID_CHARS = 56
_USABLE = re.compile(rf"[\w.:-]{{1,{MAX_ID_CHARS}}}", re.ASCII)


class CallIds:
    """Ids that occur once in a conversation, though some servers repeat theirs, or have none."""

    def __init__(self, request: Request) -> None:
        self._used = {
            call.id
            for message in request.messages
            if isinstance(message, FromModel)
            for call in message.calls
        }

    def take(self, told: str | None) -> str:
        """The id that a server told, if it can be used, or else one like it."""
        usable = told if told and _USABLE.fullmatch(told) else ""
        number, id_ = len(self._used), usable
        while not id_ or id_ in self._used:
            id_ = f"{usable or 'call'}_{number}"
            number += 1
        self._used.add(id_)
        return id_


class Meter:
    """Totals that a server tells again and again, as what is new in each; so a broken reply is counted."""

    def __init__(self) -> None:
        self._told = Usage()

    def read(self, total: Usage) -> Usage | None:
        before = self._told
        fresh = Usage(
            max(0, total.input - before.input),
            max(0, total.cached - before.cached),
            max(0, total.cache_written - before.cache_written),
            max(0, total.output - before.output),
        )
        self._told = before + fresh
        return None if fresh == Usage() else fresh


def json_object(call: Call) -> Mapping[str, Any]:
    """A call's arguments as the services want them back; what was no object goes back as text in one."""
    try:
        value = json.loads(call.arguments or "{}")
    except (ValueError, RecursionError):
        return {"invalid": call.arguments}
    return value if isinstance(value, dict) else {"invalid": call.arguments}


def json_arguments(call: Call) -> str:
    """The same as text, letter by letter as the model wrote it where that can be."""
    value = json_object(call)
    return json.dumps(value) if not call.arguments or value == {"invalid": call.arguments} else call.arguments
