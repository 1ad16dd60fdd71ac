"""The order of the parts of a reply, with the thoughts that a service requires back unchanged.

The log stores text and calls, and may have removed secrets from them. So this stores
only their positions between the thoughts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from hutch.llm.interface import Call, FromModel
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Thought:
    """A part that is sent back unchanged."""

    block: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of the text, with the service's data for it."""

    text: str
    mark: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OrderedCall:
    """A call, with the service's data for it."""

    call: Call
    mark: Mapping[str, Any] = field(default_factory=dict)


class Order:
    """Collects the parts as they arrive."""

    def __init__(self) -> None:
        self._parts: list[dict[str, Any]] = []

    def text(self, text: str, **mark: Any) -> None:
        last = self._parts[-1] if self._parts else {}
        # A signature belongs to one part only.
        if "text" in last and last["mark"] == mark and not mark.get("signature"):
            last["text"] += len(text)
        else:
            self._parts.append({"text": len(text), "mark": mark})

    def thought(self, block: dict[str, Any]) -> None:
        """Add a block, which may still grow."""
        self._parts.append({"thought": block})

    def call(self, id_: str, **mark: Any) -> None:
        self._parts.append({"call": id_, "mark": mark})

    def opaque(self, provider: str) -> dict[str, Any]:
        """The data for the next request; empty when the reply is only one text followed by calls."""
        kinds = ["text" if "text" in part else "call" for part in self._parts if "thought" not in part]
        plain = len(kinds) == len(self._parts) and not any(part["mark"] for part in self._parts)
        if plain and kinds == sorted(kinds, reverse=True) and kinds.count("text") <= 1:
            return {}
        slim = [{key: value for key, value in part.items() if value != {}} for part in self._parts]
        return {provider: {"parts": slim}}


def in_order(message: FromModel, provider: str) -> Iterator[Thought | TextPart | OrderedCall]:
    """The parts of a reply in their order; the text and then the calls, when the order is unknown."""
    calls = {call.id: call for call in message.calls}
    parts = message.opaque.get(provider, {}).get("parts", ())
    rest = message.text
    is_unchanged = sum(part.get("text", 0) for part in parts) == len(rest)
    if not any("text" in part for part in parts) and rest:
        yield TextPart(rest)
    for part in parts:
        if "thought" in part:
            yield Thought(part["thought"])
        elif "text" in part:
            length = part["text"] if is_unchanged else len(rest)  # else all text goes into the first part
            yield TextPart(rest[:length], part.get("mark", {}))
            rest = rest[length:]
        elif found := calls.pop(part["call"], None):
            yield OrderedCall(found, part.get("mark", {}))
    for call in calls.values():
        yield OrderedCall(call)
