"""What can happen to a session as a whole."""

from typing import Literal

from pydantic import Field

from hutch.domain.event import Event


class SessionOpened(Event):
    """A session began; always the first event of its log."""

    type: Literal["session.opened"] = "session.opened"
    purpose: str = ""
    owner: str = ""
    role: str = ""
    expectations: str = ""


class InputTaken(Event):
    """An input was taken up; what came of it stands beside or after this."""

    type: Literal["input.taken"] = "input.taken"
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
    """Nothing is begun in a session until somebody lets it go on."""

    type: Literal["session.paused"] = "session.paused"
    by: str = ""


class SessionResumed(Event):
    """A session that was paused goes on."""

    type: Literal["session.resumed"] = "session.resumed"
    by: str = ""


class SessionParked(Event):
    """The jail of a session was closed, since nobody used it or its server ended; the workspace is kept."""

    type: Literal["session.parked"] = "session.parked"
    snapshot: int = 0
    reason: str = ""


class SessionWoken(Event):
    """A session that was parked has a jail again."""

    type: Literal["session.woken"] = "session.woken"


class SessionRewound(Event):
    """Files and conversation are again what they were after the event `to_seq`."""

    type: Literal["session.rewound"] = "session.rewound"
    to_seq: int
    snapshot: int
    by: str = ""
    before: int = 0
    discarded: tuple[str, ...] = ()
    discarded_count: int = 0


class MessageSent(Event):
    """Somebody said something: a person, the agent, or Hutch itself."""

    type: Literal["message.sent"] = "message.sent"
    author: Literal["user", "agent", "hutch"]
    text: str
    by: str = ""
    input: int = 0


class EventsOmitted(Event):
    """Things happened of which this log has no event: the disk was full, the log was at its bound, or the
    server was killed. After that, nobody knows how many there were: `count` is 0.

    `late` events follow at once: they happened meanwhile, and were written when that was possible again.
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
    """A session is over; always the last event of its log, and signed as such."""

    type: Literal["session.ended"] = "session.ended"
    outcome: Literal["done", "failed", "cancelled", "abandoned"]
    reason: str = ""
