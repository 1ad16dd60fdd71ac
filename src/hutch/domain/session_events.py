"""Events of a session as a whole."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.base_event import Event


class SessionOpened(Event):
    """A session was opened; always the first event of its log."""

    type: Literal["session.opened"] = "session.opened"
    purpose: str = ""
    owner: str = ""
    role: str = ""
    expectations: str = ""
    company: str = ""
    variables: tuple[str, ...] = ()  # names of those that its jail has
    secrets: tuple[str, ...] = ()  # names of those that its jail gets


class InputProcessed(Event):
    """An input was processed; its effects are recorded with this event or after it."""

    type: Literal["input.processed"] = "input.processed"
    input: int
    kind: str
    by: str = ""
    refused: str = ""


class SessionPrepared(Event):
    """The workspace of a session is ready."""

    type: Literal["session.prepared"] = "session.prepared"
    workspace: str
    source: str = ""
    commit: str = ""
    starter_files: int = 0
    duration_s: float = 0.0


class OptionChange(BaseModel):
    """One option of a session, before and after a change; null or empty means not set."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    name: str
    before: Any = None
    after: Any = None


class SessionChanged(Event):
    """Options of a session were changed: its persona, model, network, limits or generation options.

    A current run has the new options from its next turn on.
    """

    type: Literal["session.changed"] = "session.changed"
    by: str = ""
    changes: tuple[OptionChange, ...] = ()


class SessionPaused(Event):
    """A session was paused: nothing starts in it until it is resumed."""

    type: Literal["session.paused"] = "session.paused"
    by: str = ""


class SessionResumed(Event):
    """A paused session continues."""

    type: Literal["session.resumed"] = "session.resumed"
    by: str = ""


class SessionParked(Event):
    """The jail of a session was closed because it was idle or its server ended; the workspace stays."""

    type: Literal["session.parked"] = "session.parked"
    snapshot: int = 0
    reason: str = ""


class SessionWoken(Event):
    """A parked session has a jail again."""

    type: Literal["session.woken"] = "session.woken"


class UndoEvent(Event):
    """The base of events about an undo, with its effect on the files."""

    title: str = ""
    by: str = ""
    input: int = 0
    before: int = 0
    after: int = 0
    files: tuple[str, ...] = ()
    files_count: int = 0
    merged: tuple[str, ...] = ()
    marked: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    reasons: dict[str, str] = Field(default_factory=dict)
    discarded: tuple[str, ...] = ()
    discarded_count: int = 0


class SessionRewound(UndoEvent):
    """A run was undone: the conversation is as after the event `to_seq`, and the run's changes of files were
    taken back."""

    type: Literal["session.rewound"] = "session.rewound"
    to_seq: int
    snapshot: int


class ChangesUndone(UndoEvent):
    """The changes of one step were taken back: of a tool call, a command, or one change of a file."""

    type: Literal["changes.undone"] = "changes.undone"
    step: int


class SessionRedone(UndoEvent):
    """The undo with the number `undone` was taken back, of files and conversation."""

    type: Literal["session.redone"] = "session.redone"
    undone: int


class ConversationCopied(Event):
    """The conversation of another session was taken along when this one was forked from it.

    `events` are those events of its log, up to `upto_seq`, that the model sees. A long conversation is
    copied in several parts.
    """

    type: Literal["conversation.copied"] = "conversation.copied"
    session: str
    upto_seq: int
    events: tuple[dict[str, Any], ...] = ()


class MessageSent(Event):
    """A message of a person, the agent, or Hutch itself."""

    type: Literal["message.sent"] = "message.sent"
    author: Literal["user", "agent", "hutch"]
    text: str
    by: str = ""
    input: int = 0


class EventsOmitted(Event):
    """Events are missing from this log: the disk was full, the log reached its limit, or the server was
    killed. After a kill their number is unknown: `count` is 0.

    `late` events follow directly: they happened meanwhile, and were written once that was possible again.
    """

    type: Literal["events.omitted"] = "events.omitted"
    cause: Literal["storage", "limit", "crash"]
    reason: str
    since_ms: int
    until_ms: int
    count: int
    payload_bytes: int = 0
    types: dict[str, int] = Field(default_factory=dict)
    late: int = 0


class SessionEnded(Event):
    """A session ended; always the last event of its log, and signed as such."""

    type: Literal["session.ended"] = "session.ended"
    outcome: Literal["done", "failed", "cancelled", "abandoned"]
    reason: str = ""
