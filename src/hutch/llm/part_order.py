"""The order in which the parts of a reply came, with the thoughts that a service wants back untouched.

Text and calls are kept by the rest of Hutch, which may have taken secrets out of
them. So only their places are kept here, between thoughts that nobody reads.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hutch.llm.interface import Call, FromModel


@dataclass(frozen=True, slots=True)
class Thought:
    """A part that goes back exactly as it came."""

    block: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Said:
    """A stretch of text, with what the service attached to it."""

    text: str
    mark: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderedCall:
    """A call, with what the service attached to it."""

    call: Call
    mark: Mapping[str, Any] = field(default_factory=dict)


class Order:
    """Takes the parts as they come."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []

    def text(self, text: str, **mark: Any) -> None:
        last = self._parts[-1] if self._parts else {}
        if "text" in last and last["mark"] == mark and not mark.get("signature"):  # of one part alone
            last["text"] += len(text)
        else:
            self._parts.append({"text": len(text), "mark": mark})

    def thought(self, block: dict[str, Any]) -> None:
        """A block that may still grow."""
        self._parts.append({"thought": block})

    def call(self, id_: str, **mark: Any) -> None:
        self._parts.append({"call": id_, "mark": mark})

    def opaque(self, provider: str) -> dict[str, Any]:
        """What goes back with the next request; nothing when text came first, then calls, and no more."""
        kinds = ["text" if "text" in part else "call" for part in self._parts if "thought" not in part]
        plain = len(kinds) == len(self._parts) and not any(part["mark"] for part in self._parts)
        if plain and kinds == sorted(kinds, reverse=True) and kinds.count("text") <= 1:
            return {}
        slim = [{key: value for key, value in part.items() if value != {}} for part in self._parts]
        return {provider: {"parts": slim}}


def in_order(message: FromModel, provider: str) -> Iterator[Thought | Said | OrderedCall]:
    """The parts of a reply as they came; text first and then calls, when nothing else is known."""
    calls = {call.id: call for call in message.calls}
    parts = message.opaque.get(provider, {}).get("parts", ())
    rest = message.text
    whole = sum(part.get("text", 0) for part in parts) == len(rest)
    if not any("text" in part for part in parts) and rest:
        yield Said(rest)
    for part in parts:
        if "thought" in part:
            yield Thought(part["thought"])
        elif "text" in part:
            letters = part["text"] if whole else len(rest)  # its length changed: all goes to the first place
            yield Said(rest[:letters], part.get("mark", {}))
            rest = rest[letters:]
        elif found := calls.pop(part["call"], None):
            yield OrderedCall(found, part.get("mark", {}))
    for call in calls.values():
        yield OrderedCall(call)
