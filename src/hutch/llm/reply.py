"""A reply put together from its pieces."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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


@dataclass(frozen=True, slots=True)
class Reply:
    """All that a model said in one turn."""

    text: str = ""
    thinking: str = ""
    calls: tuple[Call, ...] = ()
    usage: Usage = field(default_factory=Usage)
    finish: FinishReason = "other"
    opaque: Mapping[str, Any] = field(default_factory=dict)
    attempts: int = 1


class Gathering:
    """Takes the pieces as they come."""

    def __init__(self) -> None:
        self._attempts = 1
        self._usage = Usage()
        self._begin()

    def add(self, piece: Delta) -> None:
        match piece:
            case Text():
                self._text.append(piece.text)
            case Thinking():
                self._thinking.append(piece.text)
            case CallStarted():
                self._calls[piece.id] = (piece.tool, [])
            case CallArguments():
                self._calls[piece.id][1].append(piece.text)
            case CallEnded():
                self._ended.add(piece.id)
            case Usage():
                self._usage += piece  # tokens of a try that broke off are paid for too
            case Again():
                self._attempts = piece.attempt
                self._begin()
            case Finish():
                self._finish = piece

    def reply(self) -> Reply:
        """What there is; a call that never ended is not one."""
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
