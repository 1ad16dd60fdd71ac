"""What the providers have in common: an account, ids of calls, tokens, and arguments that go back."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

from hutch.llm.seam import Call, FromModel, Request, Usage

CONNECT_S = 15.0
READ_S = 600.0  # silence is watched elsewhere, for all alike; this is the last net
MOST_ID_LETTERS = 56
SHORTEST_KEY = 8  # a shorter one stands for no key
_USABLE = re.compile(rf"[\w.:-]{{1,{MOST_ID_LETTERS}}}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Account:
    """Whom to ask, at which address, with which key."""

    provider: str
    model: str
    key: str
    base_url: str

    @property
    def full_name(self) -> str:
        return f"{self.provider}:{self.model}"

    def without_key(self, text: str) -> str:
        """A text of the server, which may repeat what it was sent."""
        return text.replace(self.key, "[the key]") if len(self.key) >= SHORTEST_KEY else text

    @property
    def timeout(self) -> httpx2.Timeout:
        return httpx2.Timeout(READ_S, connect=CONNECT_S)


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
        before, self._told = self._told, total
        fresh = Usage(
            total.input - before.input,
            total.cached - before.cached,
            total.cache_written - before.cache_written,
            total.output - before.output,
        )
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
