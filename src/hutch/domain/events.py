"""Everything that can happen in a session, as one closed typed union.

An event is a fact in the past tense. Its JSON is stable: fields are added, never
renamed or dropped, and `v` rises when a field changes its meaning. What a newer
Hutch wrote and this one cannot read is carried through as an `UnknownEvent`,
byte for byte.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_args

import orjson
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from hutch.domain.ids import SessionId


class Event(BaseModel):
    """What all events share. `extra="allow"` keeps fields that a newer version added."""

    model_config = ConfigDict(frozen=True, extra="allow")

    type: str
    v: int = 1


class SessionOpened(Event):
    """A session began; always the first event of its log."""

    type: Literal["session.opened"] = "session.opened"
    purpose: str = ""
    owner: str = ""


class MessageSent(Event):
    """Somebody said something: a person, the agent, or Hutch itself."""

    type: Literal["message.sent"] = "message.sent"
    author: Literal["user", "agent", "hutch"]
    text: str


class CommandStarted(Event):
    """A command was given to a shell of the jail."""

    type: Literal["command.started"] = "command.started"
    shell: str
    command: str
    cwd: str


class CommandYielded(Event):
    """A command took longer than its caller would wait, and goes on under an id."""

    type: Literal["command.yielded"] = "command.yielded"
    shell: str
    command: str
    background_id: str


class CommandEnded(Event):
    """A command ended by itself, by a signal, or at its timeout."""

    type: Literal["command.ended"] = "command.ended"
    shell: str
    command: str
    cwd: str
    exit_code: int | None
    signal: int | None = None
    timed_out: bool = False
    duration_s: float
    background_id: str | None = None


class EgressAttempted(Event):
    """Something in the jail wanted to reach a host."""

    type: Literal["egress.attempted"] = "egress.attempted"
    method: str
    host: str
    port: int
    allowed: bool
    reason: str = ""


class RunStarted(Event):
    """The agent took up a prompt."""

    type: Literal["run.started"] = "run.started"
    run_id: str
    prompt: str
    persona: str
    model: str
    workspace: str = ""
    notes: str | None = None


class CallMade(BaseModel):
    """A tool that a model wanted to be used; its arguments are JSON text, which may be wrong."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    tool: str
    arguments: str


class ModelReplied(Event):
    """A model said something, wanted tools to be used, or both."""

    type: Literal["model.replied"] = "model.replied"
    run_id: str
    turn: int
    text: str = ""
    thinking: str = ""
    calls: tuple[CallMade, ...] = ()
    finish: str = "stop"
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    attempts: int = 1
    duration_s: float = 0.0
    opaque: dict[str, Any] = Field(default_factory=dict)


class ToolCalled(Event):
    """A tool began to work."""

    type: Literal["tool.called"] = "tool.called"
    run_id: str
    call_id: str
    tool: str
    arguments: str


class ToolReturned(Event):
    """A tool is done; `text` is what the model reads of it."""

    type: Literal["tool.returned"] = "tool.returned"
    run_id: str
    call_id: str
    tool: str
    ok: bool
    text: str
    duration_s: float = 0.0


class ApprovalAsked(Event):
    """A tool waits until somebody allows it."""

    type: Literal["approval.asked"] = "approval.asked"
    call_id: str
    tool: str
    summary: str
    rule: str


class ApprovalGiven(Event):
    """Somebody has answered whether a tool may be used."""

    type: Literal["approval.given"] = "approval.given"
    call_id: str
    allowed: bool
    scope: Literal["once", "session", "always"] = "once"
    by: str = ""


class QuestionAsked(Event):
    """The agent waits for an answer."""

    type: Literal["question.asked"] = "question.asked"
    call_id: str
    text: str


class FileChanged(Event):
    """A file of the workspace was changed by a tool; hashes are SHA-256 of its content."""

    type: Literal["file.changed"] = "file.changed"
    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None = None
    after: str | None = None
    moved_from: str | None = None
    call_id: str = ""


class SnapshotTaken(Event):
    """The content of the workspace at this moment was kept."""

    type: Literal["snapshot.taken"] = "snapshot.taken"
    snapshot: int
    tree: str
    reason: str


class RanTests(Event):
    """The tests of the repository were run."""

    type: Literal["tests.run"] = "tests.run"
    run_id: str
    command: str
    ok: bool
    passed: int
    failed: int
    skipped: int
    duration_s: float = 0.0


class ContextCompacted(Event):
    """What the model sees of events up to `upto_seq` is this summary from now on."""

    type: Literal["context.compacted"] = "context.compacted"
    run_id: str
    upto_seq: int
    summary: str
    tokens_before: int = 0
    tokens_after: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = 0.0


class ChangeProposed(Event):
    """A branch with a commit was put where people can review and merge it."""

    type: Literal["change.proposed"] = "change.proposed"
    change_id: str
    branch: str
    base: str
    commit: str
    title: str
    url: str


class RunEnded(Event):
    """The agent is done with a prompt, in exactly one way."""

    type: Literal["run.ended"] = "run.ended"
    run_id: str
    outcome: Literal["done", "tests_failing", "limit_reached", "cancelled", "failed"]
    reason: str = ""
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0


class SessionEnded(Event):
    """A session is over; always the last event of its log, and signed as such."""

    type: Literal["session.ended"] = "session.ended"
    outcome: Literal["done", "failed", "cancelled", "abandoned"]
    reason: str = ""


KnownEvent = Annotated[
    SessionOpened
    | MessageSent
    | CommandStarted
    | CommandYielded
    | CommandEnded
    | EgressAttempted
    | RunStarted
    | ModelReplied
    | ToolCalled
    | ToolReturned
    | ApprovalAsked
    | ApprovalGiven
    | QuestionAsked
    | FileChanged
    | SnapshotTaken
    | RanTests
    | ContextCompacted
    | ChangeProposed
    | RunEnded
    | SessionEnded,
    Field(discriminator="type"),
]
EVENT_TYPES: dict[str, type[Event]] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind for kind in get_args(get_args(KnownEvent)[0])
}


@dataclass(frozen=True, slots=True)
class UnknownEvent:
    """An event from a newer version: its type, and its JSON exactly as it was written."""

    type: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class ErasedEvent:
    """An event whose payload was erased; the chain still vouches that it was there."""

    type: str
    at_ms: int
    reason: str


AnyEvent = Event | UnknownEvent | ErasedEvent


@dataclass(frozen=True, slots=True)
class Entry:
    """An event at its place in a session's log."""

    session_id: SessionId
    seq: int
    at_ms: int
    event: AnyEvent
    hash: str


_adapter: TypeAdapter[Event] = TypeAdapter(KnownEvent)


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    raise TypeError(f"{type(value).__name__} cannot be written to the log")


def to_json(event: Event | UnknownEvent) -> bytes:
    """The event's canonical JSON: sorted keys, no spaces, UTF-8."""
    if isinstance(event, UnknownEvent):
        return event.payload
    fields = event.__dict__ if not event.__pydantic_extra__ else _fields(event)
    return orjson.dumps(fields, default=_fields, option=orjson.OPT_SORT_KEYS)


def from_json(payload: bytes, type_: str) -> Event | UnknownEvent:
    """Read an event back; one that this version cannot read becomes an `UnknownEvent`."""
    kind = EVENT_TYPES.get(type_)
    if kind is None:
        return UnknownEvent(type_, payload)
    try:
        return kind.model_validate_json(payload)
    except ValidationError:
        return UnknownEvent(type_, payload)


def json_schema() -> dict[str, Any]:
    """The JSON schema of the whole union, for documents and generated clients."""
    return _adapter.json_schema()
