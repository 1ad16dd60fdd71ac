"""A reply, assembled from its deltas."""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from hutch.llm.interface import (
    Again,
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    FinishReason,
    Text,
    Thinking,
    Usage,
)
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Reply:
    """The complete reply of a model in one turn."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish: FinishReason = "other"
    opaque: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1


class ReplyBuilder:
    """Assembles a reply from its deltas."""

    def __init__(self) -> None:
        self._attempts = 1
        self._usage = Usage()
        self._begin()

    def add(self, delta: Delta) -> None:
        match delta:
            case Text():
                self._text.append(delta.text)
            case Thinking():
                self._thinking.append(delta.text)
            case CallStarted():
                self._calls[delta.id] = (delta.tool, [])
            case CallArguments():
                self._calls[delta.id][1].append(delta.text)
            case CallEnded():
                self._ended.add(delta.id)
            case Usage():
                self._usage += delta  # tokens of a failed attempt cost money too
            case Again():
                self._attempts = delta.attempt
                self._begin()
            case Finish():
                self._finish = delta

    def reply(self) -> Reply:
        """The reply so far, without calls that never ended."""
        calls = (
            Call(id_, tool, "".join(parts))
            for id_, (tool, parts) in self._calls.items()
            if id_ in self._ended
        )
        return Reply(
            "".join(self._text),
            "".join(self._thinking),
            tuple(calls),
            self._usage,
            self._finish.reason,
            self._finish.opaque,
            self._attempts,
        )

    def _begin(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls: dict[str, tuple[str, list[str]]] = {}
        self._ended: set[str] = set()
        self._finish = Finish("other")
