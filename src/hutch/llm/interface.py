"""What the rest of Hutch knows of a model: a conversation goes in, a stream of small pieces comes out.

Nothing here is of one provider. What a provider wants back unchanged with the
next request, such as the signature of a thought, travels as `opaque`.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol


@dataclass(frozen=True, slots=True)
class Call:
    """A tool that the model wants to be used. Its arguments are JSON text, which may be wrong."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class FromUser:
    """What a person, or Hutch for them, says to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class FromModel:
    """What the model said and wanted, as it goes back to it."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    opaque: Mapping[str, Any] = field(default_factory=dict)  # JSON, by provider


@dataclass(frozen=True, slots=True)
class FromTool:
    """What came of a call."""

    call_id: str
    tool: str
    text: str
    ok: bool = True


Message = FromUser | FromModel | FromTool


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """A tool as the model is told of it."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # JSON schema of an object


@dataclass(frozen=True, slots=True)
class Request:
    """All that a model gets to see. Its beginning stays the same from turn to turn, so that caches hit."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    most_tokens: int = 16_384  # of the reply
    temperature: float | None = None
    forgotten: tuple[Message, ...] = ()  # what a summary stands for, for a model that must know its place
    summary: bool = False  # a summary is wanted, and no turn


@dataclass(frozen=True, slots=True)
class Text:
    """The next letters of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """The next letters of what it thinks before it says something."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """The model begins to call a tool; ids are its own within one reply."""

    id: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next letters of a call's arguments."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is complete."""

    id: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply. `input` counts all that went in, `cached` and `cache_written` are parts of it."""

    input: int = 0
    cached: int = 0
    cache_written: int = 0
    output: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.cache_written + other.cache_written,
            self.output + other.output,
        )


@dataclass(frozen=True, slots=True)
class Again:
    """The reply broke off and is asked for again: what came of it so far is void."""

    attempt: int  # the number of the try that follows; the first was 1
    wait_s: float
    reason: str


FinishReason = Literal["stop", "calls", "length", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the reply ended, and what goes back with the next request; always the last piece."""

    reason: FinishReason
    opaque: Mapping[str, Any] = field(default_factory=dict)


Delta = Text | Thinking | CallStarted | CallArguments | CallEnded | Usage | Again | Finish


class Model(Protocol):
    """A model that can be asked."""

    name: str  # as people name it: provider:name
    context_tokens: int | None  # how much it can take, where that is known

    def stream(self, request: Request) -> AsyncGenerator[Delta]:
        """The reply, piece by piece. Closing the generator stops the wire."""
        ...

    async def close(self) -> None: ...
