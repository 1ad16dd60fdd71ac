"""Events of a session as a whole."""

from typing import Literal

from pydantic import Field

from hutch.domain.base_event import Event


class SessionOpened(Event):
    """A session was opened; always the first event of its log."""

    type: Literal["session.opened"] = "session.opened"
    purpose: str = ""
    owner: str = ""
    role: str = ""
    expectations: str = ""


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
    duration_s: float = 0.0


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


class SessionRewound(Event):
    """Files and conversation were restored to their state after the event `to_seq`."""

    type: Literal["session.rewound"] = "session.rewound"
    to_seq: int
    snapshot: int
    by: str = ""
    before: int = 0
    discarded: tuple[str, ...] = ()
    discarded_count: int = 0


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
