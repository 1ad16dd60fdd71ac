"""The interface of models: a conversation goes in, a stream of deltas comes out.

Nothing here is specific to one provider. Data that a provider needs back unchanged with
the next request, such as the signature of a thought, travels as `opaque`.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import field
from typing import Any, Literal, Protocol

from hutch.domain.generation_options import Effort
from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call of the model. Its arguments are JSON text, which may be invalid."""

    id: str
    tool: str
    arguments: str


@dataclass(frozen=True, slots=True)
class FromUser:
    """A message of a user, or of Hutch, to the model."""

    text: str


@dataclass(frozen=True, slots=True)
class FromModel:
    """A reply of the model, as later requests repeat it."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    opaque: Mapping[str, Any] = field(default_factory=dict)  # JSON, by provider


@dataclass(frozen=True, slots=True)
class Image:
    """An image for a model that sees."""

    media_type: str  # image/png, image/jpeg, image/gif or image/webp
    data: str  # Base64

    @property
    def url(self) -> str:
        return f"data:{self.media_type};base64,{self.data}"


@dataclass(frozen=True, slots=True)
class FromTool:
    """The result of a call."""

    call_id: str
    tool: str
    text: str
    ok: bool = True
    image: Image | None = None


Message = FromUser | FromModel | FromTool


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """The description of a tool for the model."""

    name: str
    description: str
    parameters: Mapping[str, Any]  # JSON schema of an object


@dataclass(frozen=True, slots=True)
class Request:
    """Everything that a model sees. Its beginning stays the same from turn to turn, so that caches hit."""

    system: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...] = ()
    max_tokens: int = 16_384  # of the reply
    temperature: float | None = None
    effort: Effort | None = None  # of its thinking; None: the provider's default
    compacted: tuple[
        Message, ...
    ] = ()  # replaced by a summary; the scripted model finds its position by them
    summary: bool = False  # a request for a summary, not a turn


@dataclass(frozen=True, slots=True)
class Text:
    """The next characters of the model's text."""

    text: str


@dataclass(frozen=True, slots=True)
class Thinking:
    """The next characters of the model's thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call begins; its id is unique within one reply."""

    id: str
    tool: str


@dataclass(frozen=True, slots=True)
class CallArguments:
    """The next characters of a call's arguments."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallEnded:
    """A call is complete."""

    id: str


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one reply. `input` counts the whole request; `cached` and `cache_written` are parts of it."""

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
    """The reply broke off and is requested again: discard its deltas so far."""

    attempt: int  # the number of the next attempt; the first was 1
    wait_s: float
    reason: str
    message: str = ""  # for users: what happened, and when the next attempt is made


FinishReason = Literal["stop", "calls", "length", "refused", "other"]


@dataclass(frozen=True, slots=True)
class Finish:
    """Why the reply ended, and the data for the next request; always the last delta."""

    reason: FinishReason
    opaque: Mapping[str, Any] = field(default_factory=dict)


Delta = Text | Thinking | CallStarted | CallArguments | CallEnded | Usage | Again | Finish


class Model(Protocol):
    """A model that streams replies."""

    name: str  # as users write it: provider:name
    context_tokens: int | None  # the size of its context, if known

    def stream(self, request: Request) -> AsyncGenerator[Delta]:
        """The reply as deltas. Closing the generator closes the connection."""
        ...

    async def close(self) -> None: ...
