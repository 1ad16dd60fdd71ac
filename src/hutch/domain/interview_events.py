"""Events of an interview. They are in the log of its room, beside the events of every session."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.base_event import Event
from hutch.domain.interview_question import Level


class InterviewPlanned(Event):
    """An interview was planned. `questions` are those of the plan, with version and digest."""

    type: Literal["interview.planned"] = "interview.planned"
    by: str
    plan: dict[str, Any]
    questions: tuple[dict[str, Any], ...] = ()


class InterviewInvited(Event):
    """An invitation was made; `link` is its id, not its secret."""

    type: Literal["interview.invited"] = "interview.invited"
    by: str
    role: str
    link: str


class CandidateJoined(Event):
    """The candidate has accepted the invitation."""

    type: Literal["candidate.joined"] = "candidate.joined"
    by: str


class LobbyChecked(Event):
    """The system check before an interview: what works, and what does not."""

    type: Literal["lobby.checked"] = "lobby.checked"
    by: str
    ok: bool
    checks: tuple[dict[str, Any], ...] = ()


class ConsentGiven(Event):
    """The candidate has agreed to this text."""

    type: Literal["consent.given"] = "consent.given"
    by: str
    text: str


class InterviewBegun(Event):
    """The interview began, and its clock with it."""

    type: Literal["interview.begun"] = "interview.begun"
    by: str
    candidate: str
    minutes: int
    extra_time_percent: int = 0


class InterviewPaused(Event):
    """The clock is stopped, and the candidate cannot work until it runs again."""

    type: Literal["interview.paused"] = "interview.paused"
    by: str
    reason: str = ""
    elapsed_ms: int = 0


class InterviewResumed(Event):
    """The clock runs again."""

    type: Literal["interview.resumed"] = "interview.resumed"
    by: str
    elapsed_ms: int = 0


class QuestionOpened(Event):
    """A question was opened, with a new workspace and a new conversation: the session `workspace`."""

    type: Literal["question.opened"] = "question.opened"
    by: str
    number: int
    question: str
    title: str = ""
    version: int = 0
    digest: str = ""
    language: str
    level: str = ""
    workspace: str
    minutes: int | None = None
    elapsed_ms: int = 0


class LanguageSwitched(Event):
    """The candidate continues in another language; the work in each language stays."""

    type: Literal["language.switched"] = "language.switched"
    by: str
    number: int
    before: str
    language: str
    workspace: str
    elapsed_ms: int = 0


class StruggleMeasured(Event):
    """The struggle score and its parts, by one version of the policy. It only steers how much help is
    offered."""

    type: Literal["struggle.measured"] = "struggle.measured"
    policy: str
    workspace: str
    score: float
    parts: dict[str, float] = Field(default_factory=dict)
    elapsed_ms: int = 0


class LevelProposed(Event):
    """Another level of help is proposed, to the assessors or to the candidate."""

    type: Literal["level.proposed"] = "level.proposed"
    proposal: int
    policy: str
    direction: Literal["up", "down"]
    before: Level
    level: Level
    reason: str
    score: float = 0.0
    parts: dict[str, float] = Field(default_factory=dict)
    workspace: str = ""
    to: Literal["assessors", "candidate"] = "assessors"
    elapsed_ms: int = 0


class LevelDeclined(Event):
    """A proposal was declined; the level stays."""

    type: Literal["level.declined"] = "level.declined"
    by: str
    proposal: int
    elapsed_ms: int = 0


class LevelChanged(Event):
    """Another level of help applies from now on. `proposal` is 0 if somebody chose it freely."""

    type: Literal["level.changed"] = "level.changed"
    by: str
    before: Level
    level: Level
    proposal: int = 0
    reason: str = ""
    workspace: str = ""
    elapsed_ms: int = 0


class HelpOffered(Event):
    """Help was offered to the candidate, unasked."""

    type: Literal["help.offered"] = "help.offered"
    offer: int
    policy: str
    kind: str
    reason: str
    workspace: str = ""
    elapsed_ms: int = 0


class HelpAccepted(Event):
    """The candidate has taken an offer of help."""

    type: Literal["help.accepted"] = "help.accepted"
    by: str
    offer: int
    kind: str
    elapsed_ms: int = 0


class HelpDismissed(Event):
    """The candidate has dismissed an offer of help."""

    type: Literal["help.dismissed"] = "help.dismissed"
    by: str
    offer: int
    kind: str
    elapsed_ms: int = 0


class NoteWritten(Event):
    """A private note of an assessor, at a moment of the interview: `seq` of the session `workspace`."""

    type: Literal["note.written"] = "note.written"
    by: str
    text: str
    workspace: str = ""
    seq: int = 0
    elapsed_ms: int = 0


class TimeExtended(Event):
    """The candidate has more time."""

    type: Literal["time.extended"] = "time.extended"
    by: str
    minutes: int
    of: Literal["interview", "question"] = "interview"
    reason: str = ""


class CandidateDisconnected(Event):
    """There was no sign of the candidate for some time; the clock has been stopped since then."""

    type: Literal["candidate.disconnected"] = "candidate.disconnected"
    since_ms: int


class CandidateReconnected(Event):
    """The candidate is back; `credited_ms` of the time offline do not count."""

    type: Literal["candidate.reconnected"] = "candidate.reconnected"
    offline_ms: int
    credited_ms: int


class ClientEvent(BaseModel):
    """One event that a client reports, such as focus or paste. Its time is the client's."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    type: str
    timestamp: str = ""
    data: dict[str, Any] = Field(default_factory=dict)


class ClientReported(Event):
    """Events that the candidate's client reported. They are claims of a client: shown with context, never a
    verdict."""

    type: Literal["client.reported"] = "client.reported"
    by: str
    workspace: str = ""
    events: tuple[ClientEvent, ...] = ()
    elapsed_ms: int = 0


class HiddenTestsRun(Event):
    """The hidden tests were run on a copy of the work, in another jail."""

    type: Literal["hidden_tests.run"] = "hidden_tests.run"
    by: str
    number: int
    question: str
    language: str
    workspace: str
    seq: int = 0
    passed: int = 0
    failed: int = 0
    total: int = 0
    reason: str = ""
    cases: tuple[dict[str, Any], ...] = ()


class CodeMeasured(Event):
    """The code of a question was measured on a copy of the work: linters, complexity, and lines by author."""

    type: Literal["code.measured"] = "code.measured"
    by: str
    number: int
    question: str
    language: str
    workspace: str
    seq: int = 0
    linter: str = ""
    problem: str = ""
    findings_total: int = 0
    findings: tuple[dict[str, Any], ...] = ()
    functions: tuple[dict[str, Any], ...] = ()
    added_lines: int = 0
    removed_lines: int = 0
    authors: dict[str, dict[str, int]] = Field(default_factory=dict)


class HiddenTestsCounted(Event):
    """How many hidden tests pass, for candidates whose plan allows that."""

    type: Literal["hidden_tests.counted"] = "hidden_tests.counted"
    number: int
    passed: int
    total: int


class RatingGiven(Event):
    """An assessor's rating of one criterion of the rubric. A later one of the same assessor replaces it."""

    type: Literal["rating.given"] = "rating.given"
    by: str
    number: int
    criterion: str
    points: int | None = None
    comment: str = ""


class MarkOverridden(Event):
    """An assessor has replaced a mark that was computed."""

    type: Literal["mark.overridden"] = "mark.overridden"
    by: str
    number: int
    mark: str
    points: int | None = None
    comment: str = ""


class InterviewEnded(Event):
    """The candidate's time is over: all questions are done, somebody ended it, or the clock did."""

    type: Literal["interview.ended"] = "interview.ended"
    by: str = ""
    cause: Literal["finished", "assessor", "clock"]
    reason: str = ""
    elapsed_ms: int = 0


class InterviewSealed(Event):
    """All workspaces have ended. `logs` has the last number and hash of each of their logs, so that the
    record of the room commits to them."""

    type: Literal["interview.sealed"] = "interview.sealed"
    logs: tuple[dict[str, Any], ...] = ()
