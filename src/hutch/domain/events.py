"""Everything that can happen in a session, as one closed typed union.

An event is a fact in the past tense. Its JSON is stable: fields are added, never
renamed or dropped, and `v` rises when a field changes its meaning. An event of a
newer Hutch that this one cannot read is kept as an `UnknownEvent`, byte for byte.
`old_event_names.py` translates the types of earlier versions.
"""

from dataclasses import field
from typing import Annotated, Any, get_args

import orjson
from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from hutch.domain.base_event import Event
from hutch.domain.command_terminal_and_network_events import (
    CommandEnded,
    CommandSignalled,
    CommandStarted,
    CommandYielded,
    EgressAttempted,
    JobsDetached,
    JobsEnded,
    ShellPrinted,
    TerminalEnded,
    TerminalOpened,
    TerminalPrinted,
    TerminalResized,
    TerminalTyped,
)
from hutch.domain.debug_events import DebugEvent
from hutch.domain.dependency_and_service_events import (
    DependencyEvent,
    EnvironmentAttached,
    EnvironmentBuildStarted,
    EnvironmentBuilt,
    EnvironmentFailed,
    ServiceAnswered,
    ServiceFailed,
    ServiceStarted,
    ServiceStopped,
)
from hutch.domain.helper_agent_events import HelperEvent
from hutch.domain.ids import SessionId
from hutch.domain.interview_events import (
    CandidateDisconnected,
    CandidateJoined,
    CandidateReconnected,
    ClientReported,
    CodeMeasured,
    ConsentGiven,
    HelpAccepted,
    HelpDismissed,
    HelpOffered,
    HiddenTestsCounted,
    HiddenTestsRun,
    InterviewBegun,
    InterviewEnded,
    InterviewInvited,
    InterviewPaused,
    InterviewPlanned,
    InterviewResumed,
    InterviewSealed,
    LanguageSwitched,
    LevelChanged,
    LevelDeclined,
    LevelProposed,
    LobbyChecked,
    MarkOverridden,
    NoteWritten,
    QuestionOpened,
    RatingGiven,
    StruggleMeasured,
    TimeExtended,
)
from hutch.domain.old_event_names import current_payload, current_type
from hutch.domain.run_events import (
    ApprovalAnswered,
    ApprovalExtended,
    ApprovalRequested,
    CallMade,
    ChangeProposed,
    ContextCompacted,
    DeliveryEnded,
    DeliveryRequested,
    FileChanged,
    FilesChanged,
    ImageLoaded,
    ModelReplied,
    QuestionAnswered,
    QuestionAsked,
    ReviewSubmitted,
    RunChanged,
    RunEnded,
    RunQueued,
    RunResumed,
    RunStarted,
    SnapshotTaken,
    StepReached,
    ToolCalled,
    ToolReturned,
)
from hutch.domain.session_events import (
    ChangesUndone,
    ConversationCopied,
    EventsOmitted,
    InputProcessed,
    MessageSent,
    OptionChange,
    SessionChanged,
    SessionEnded,
    SessionOpened,
    SessionParked,
    SessionPaused,
    SessionPrepared,
    SessionRedone,
    SessionResumed,
    SessionRewound,
    SessionWoken,
)
from hutch.domain.test_run_events import RanTests, StartedTests
from hutch.system.lazy_dataclass import dataclass

__all__ = [
    "EVENT_TYPES",
    "AnyEvent",
    "ApprovalAnswered",
    "ApprovalExtended",
    "ApprovalRequested",
    "CallMade",
    "CandidateDisconnected",
    "CandidateJoined",
    "CandidateReconnected",
    "ChangeProposed",
    "ChangesUndone",
    "ClientReported",
    "CodeMeasured",
    "CommandEnded",
    "CommandSignalled",
    "CommandStarted",
    "CommandYielded",
    "ConsentGiven",
    "ContextCompacted",
    "ConversationCopied",
    "DeliveryEnded",
    "DeliveryRequested",
    "EgressAttempted",
    "Entry",
    "EnvironmentAttached",
    "EnvironmentBuildStarted",
    "EnvironmentBuilt",
    "EnvironmentFailed",
    "ErasedEvent",
    "Event",
    "EventsOmitted",
    "FileChanged",
    "FilesChanged",
    "HelpAccepted",
    "HelpDismissed",
    "HelpOffered",
    "HiddenTestsCounted",
    "HiddenTestsRun",
    "ImageLoaded",
    "InputProcessed",
    "InterviewBegun",
    "InterviewEnded",
    "InterviewInvited",
    "InterviewPaused",
    "InterviewPlanned",
    "InterviewResumed",
    "InterviewSealed",
    "JobsDetached",
    "JobsEnded",
    "KnownEvent",
    "LanguageSwitched",
    "LevelChanged",
    "LevelDeclined",
    "LevelProposed",
    "LobbyChecked",
    "MarkOverridden",
    "MessageSent",
    "ModelReplied",
    "NoteWritten",
    "OptionChange",
    "QuestionAnswered",
    "QuestionAsked",
    "QuestionOpened",
    "RanTests",
    "RatingGiven",
    "ReviewSubmitted",
    "RunChanged",
    "RunEnded",
    "RunQueued",
    "RunResumed",
    "RunStarted",
    "ServiceAnswered",
    "ServiceFailed",
    "ServiceStarted",
    "ServiceStopped",
    "SessionChanged",
    "SessionEnded",
    "SessionOpened",
    "SessionParked",
    "SessionPaused",
    "SessionPrepared",
    "SessionRedone",
    "SessionResumed",
    "SessionRewound",
    "SessionWoken",
    "ShellPrinted",
    "SnapshotTaken",
    "StartedTests",
    "StepReached",
    "StruggleMeasured",
    "TerminalEnded",
    "TerminalOpened",
    "TerminalPrinted",
    "TerminalResized",
    "TerminalTyped",
    "TimeExtended",
    "ToolCalled",
    "ToolReturned",
    "UnknownEvent",
    "WithheldEvent",
    "from_json",
    "json_schema",
    "to_json",
]

KnownEvent = Annotated[
    SessionOpened
    | InputProcessed
    | SessionPrepared
    | SessionChanged
    | SessionPaused
    | SessionResumed
    | SessionParked
    | SessionWoken
    | SessionRewound
    | SessionRedone
    | ChangesUndone
    | ConversationCopied
    | MessageSent
    | CommandStarted
    | CommandYielded
    | CommandSignalled
    | CommandEnded
    | JobsDetached
    | JobsEnded
    | ShellPrinted
    | TerminalOpened
    | TerminalPrinted
    | TerminalTyped
    | TerminalResized
    | TerminalEnded
    | EgressAttempted
    | DependencyEvent
    | HelperEvent
    | RunQueued
    | RunStarted
    | RunChanged
    | RunResumed
    | ModelReplied
    | ToolCalled
    | ToolReturned
    | ImageLoaded
    | ApprovalRequested
    | ApprovalAnswered
    | ApprovalExtended
    | QuestionAsked
    | QuestionAnswered
    | FileChanged
    | FilesChanged
    | SnapshotTaken
    | StartedTests
    | RanTests
    | DebugEvent
    | ContextCompacted
    | StepReached
    | ChangeProposed
    | DeliveryRequested
    | DeliveryEnded
    | ReviewSubmitted
    | RunEnded
    | InterviewPlanned
    | InterviewInvited
    | CandidateJoined
    | LobbyChecked
    | ConsentGiven
    | InterviewBegun
    | InterviewPaused
    | InterviewResumed
    | QuestionOpened
    | LanguageSwitched
    | StruggleMeasured
    | LevelProposed
    | LevelDeclined
    | LevelChanged
    | HelpOffered
    | HelpAccepted
    | HelpDismissed
    | NoteWritten
    | TimeExtended
    | CandidateDisconnected
    | CandidateReconnected
    | ClientReported
    | HiddenTestsRun
    | HiddenTestsCounted
    | CodeMeasured
    | RatingGiven
    | MarkOverridden
    | InterviewEnded
    | InterviewSealed
    | EventsOmitted
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
    """An event whose payload was erased; the hash chain still proves that it existed."""

    type: str
    at_ms: int
    reason: str


@dataclass(frozen=True, slots=True)
class WithheldEvent:
    """The event as shown to a reader who may not see it. No log contains one."""

    type: str


AnyEvent = Event | UnknownEvent | ErasedEvent | WithheldEvent


@dataclass(frozen=True, slots=True)
class Entry:
    """An event with its number, time and hash in a session's log."""

    session_id: SessionId
    seq: int
    at_ms: int
    event: AnyEvent
    hash: str
    payload: bytes = field(default=b"", compare=False, repr=False)  # its JSON; empty when erased or withheld


def _fields(value: object) -> dict[str, Any]:
    if isinstance(value, BaseModel):
        return {**value.__dict__, **(value.__pydantic_extra__ or {})}
    raise TypeError(f"{type(value).__name__} cannot be written to the log")


def to_json(event: Event | UnknownEvent) -> bytes:
    """The event's canonical JSON: sorted keys, no spaces, UTF-8."""
    if isinstance(event, UnknownEvent):
        return event.payload
    fields = event.__dict__ if not event.__pydantic_extra__ else _fields(event)
    if event.audience is None:
        fields = fields.copy()
        fields.pop("audience", None)  # a default is never written to a record
    return orjson.dumps(fields, default=_fields, option=orjson.OPT_SORT_KEYS)


def from_json(payload: bytes, type_: str) -> Event | UnknownEvent:
    """Read an event back; one that this version cannot read becomes an `UnknownEvent`.

    Names of earlier versions are read as the current ones.
    """
    payload, type_ = current_payload(payload, type_), current_type(type_)
    kind = EVENT_TYPES.get(type_)
    if kind is None:
        return UnknownEvent(type_, payload)
    try:
        return kind.model_validate_json(payload)
    except ValidationError:
        return UnknownEvent(type_, payload)


def json_schema() -> dict[str, Any]:
    """The JSON schema of the whole union, for documents and generated clients."""
    return TypeAdapter(KnownEvent).json_schema()
