"""Events of a run: replies, tool calls, approvals, changed files, the proposed change."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.base_event import Event


class RunQueued(Event):
    """A prompt was queued; the run starts when a worker is free."""

    type: Literal["run.queued"] = "run.queued"
    run_id: str
    prompt: str
    by: str = ""


class RunStarted(Event):
    """The agent started to work on a prompt."""

    type: Literal["run.started"] = "run.started"
    run_id: str
    prompt: str
    persona: str
    model: str
    workspace: str = ""
    notes: str | None = None
    network: tuple[str, ...] = ()
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None
    record: str = ""
    deliver: bool = True
    author: str = ""
    model_reason: str = ""
    temperature: float | None = None
    max_reply_tokens: int | None = None
    effort: str | None = None
    context_tokens: int | None = None
    jail_s: float | None = None


class RunChanged(Event):
    """The options of a run were changed while it works; they apply from this turn on."""

    type: Literal["run.changed"] = "run.changed"
    run_id: str
    turn: int
    persona: str
    model: str
    network: tuple[str, ...] = ()
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None
    temperature: float | None = None
    max_reply_tokens: int | None = None
    effort: str | None = None
    context_tokens: int | None = None


class CallMade(BaseModel):
    """A tool call of a model; its arguments are JSON text, which may be invalid."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    id: str
    tool: str
    arguments: str


class ModelReplied(Event):
    """A model replied with text, tool calls, or both."""

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
    first_token_s: float | None = None
    opaque: dict[str, Any] = Field(default_factory=dict)


class ToolCalled(Event):
    """A tool call started."""

    type: Literal["tool.called"] = "tool.called"
    run_id: str
    call_id: str
    tool: str
    arguments: str
    by: str = ""


class ToolReturned(Event):
    """A tool call ended; `text` is the result that the model reads."""

    type: Literal["tool.returned"] = "tool.returned"
    run_id: str
    call_id: str
    tool: str
    ok: bool
    text: str
    duration_s: float = 0.0
    by: str = ""
    rule: str = ""
    rule_source: str = ""


class ImageLoaded(Event):
    """The agent read an image; the model sees it with the result of the call, if it can."""

    type: Literal["image.loaded"] = "image.loaded"
    run_id: str
    call_id: str
    path: str
    media_type: str
    size: int
    width: int
    height: int
    sha256: str
    data: str = ""


class ApprovalRequested(Event):
    """A tool call waits for approval."""

    type: Literal["approval.requested"] = "approval.requested"
    call_id: str
    tool: str
    summary: str
    rule: str
    covers: tuple[str, ...] = ()
    source: str = ""
    policies: tuple[str, ...] = ()
    approvers: tuple[str, ...] = ()
    helper: str = ""


class ApprovalAnswered(Event):
    """A user allowed or denied a tool call."""

    type: Literal["approval.answered"] = "approval.answered"
    call_id: str
    allowed: bool
    scope: Literal["once", "session", "always"] = "once"
    by: str = ""


class ApprovalExtended(Event):
    """A user allowed for the rest of the session what a user had allowed once."""

    type: Literal["approval.extended"] = "approval.extended"
    call_id: str
    by: str = ""
    input: int = 0


class QuestionAsked(Event):
    """The agent waits for an answer."""

    type: Literal["question.asked"] = "question.asked"
    call_id: str
    text: str
    choices: tuple[str, ...] = ()


class QuestionAnswered(Event):
    """A user answered a question of the agent."""

    type: Literal["question.answered"] = "question.answered"
    call_id: str
    text: str
    by: str = ""


ChangeCause = Literal["tool", "command", "terminal", "job", "request", "undo", "restore", "unknown"]
"""How a file was changed: see docs/events.md."""


class FileChanged(Event):
    """A file of the workspace was changed; hashes are SHA-256 of its content.

    Snapshots `previous_snapshot` and `snapshot` hold the file before and after.
    """

    type: Literal["file.changed"] = "file.changed"
    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None = None
    after: str | None = None
    moved_from: str | None = None
    call_id: str = ""
    by: str = ""
    possible_authors: tuple[str, ...] = ()
    alone: bool = False
    cause: ChangeCause = "unknown"
    source: str = ""
    previous_snapshot: int = 0
    snapshot: int = 0


class FilesChanged(Event):
    """More files were changed than are listed one by one, or files that git ignores."""

    type: Literal["files.changed"] = "files.changed"
    created: int = 0
    modified: int = 0
    deleted: int = 0
    ignored: bool = False
    directories: dict[str, int] = Field(default_factory=dict)
    call_id: str = ""
    by: str = ""
    possible_authors: tuple[str, ...] = ()
    alone: bool = False
    cause: ChangeCause = "unknown"
    source: str = ""
    previous_snapshot: int = 0
    snapshot: int = 0


class SnapshotTaken(Event):
    """The content of the workspace was stored.

    `by` asked for it, or made the call or command before it; empty if Hutch took it at another time.
    """

    type: Literal["snapshot.taken"] = "snapshot.taken"
    snapshot: int
    tree: str
    reason: str
    by: str = ""


class ContextCompacted(Event):
    """From now on the model sees this summary instead of the events up to `upto_seq`."""

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
    """A branch with a commit was published for review and merge."""

    type: Literal["change.proposed"] = "change.proposed"
    change_id: str
    branch: str
    base: str
    commit: str
    title: str
    url: str


class StepReached(Event):
    """The preparation of a workspace or the delivery of a change reached its next step."""

    type: Literal["step.reached"] = "step.reached"
    step: Literal["cloning", "inspecting", "branching", "committing", "pushing", "opening"]
    message: str
    run_id: str = ""


class DeliveryRequested(Event):
    """A user asked to deliver the work of a run once more; `failing` accepts failing tests."""

    type: Literal["delivery.requested"] = "delivery.requested"
    run_id: str
    by: str
    failing: bool = False


STORED_SECRET, SUSPECTED_SECRET = "stored_secret", "suspected_secret"  # codes of refused deliveries


class DeliveryEnded(Event):
    """The delivery of a run's work ended: the result of a run that delivers.

    `code`: `stored_secret` or `suspected_secret` if the work has one; a user may confirm the latter.
    `cancelled`: a user cancelled the delivery, and the options of its request no longer apply.
    """

    type: Literal["delivery.ended"] = "delivery.ended"
    run_id: str
    outcome: Literal["proposed", "nothing", "failed"]
    reason: str = ""
    code: str = ""
    failing: bool = False
    cancelled: bool = False
    change_id: str = ""
    url: str = ""


class ReviewSubmitted(Event):
    """A change was reviewed: the result of a run that reviews."""

    type: Literal["review.submitted"] = "review.submitted"
    run_id: str
    verdict: Literal["approved", "changes_requested", "commented"]
    title: str = ""
    commit: str = ""
    blockers: int = 0
    shoulds: int = 0
    coulds: int = 0
    change_id: str = ""
    url: str = ""


class RunResumed(Event):
    """A user resumed a run that had ended. Limits that are set replace the earlier ones."""

    type: Literal["run.resumed"] = "run.resumed"
    run_id: str
    by: str = ""
    model: str = ""
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None


class RunEnded(Event):
    """A run ended, with exactly one outcome.

    Nothing of the run comes later. Commands in `left_running` continue; what they print has their ids.
    """

    type: Literal["run.ended"] = "run.ended"
    run_id: str
    outcome: Literal["done", "tests_failing", "limit_reached", "cancelled", "failed"]
    reason: str = ""
    code: str = ""
    limit: Literal["", "turns", "tokens", "cost_usd", "timeout_s"] = ""
    limit_set_by: Literal["", "persona", "repository"] = ""
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0
    left_running: tuple[str, ...] = ()
