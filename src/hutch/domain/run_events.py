"""What can happen while an agent works: replies, tools, approvals, tests, the change it proposes."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hutch.domain.event import Event


class RunQueued(Event):
    """Somebody wants the agent to take up a prompt; it begins when there is room."""

    type: Literal["run.queued"] = "run.queued"
    run_id: str
    prompt: str
    by: str = ""


class RunStarted(Event):
    """The agent took up a prompt."""

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
    covers: tuple[str, ...] = ()


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


class QuestionAnswered(Event):
    """Somebody has answered a question of the agent."""

    type: Literal["question.answered"] = "question.answered"
    call_id: str
    text: str
    by: str = ""


class FileChanged(Event):
    """A file of the workspace was changed by a tool; hashes are SHA-256 of its content."""

    type: Literal["file.changed"] = "file.changed"
    path: str
    kind: Literal["created", "modified", "deleted", "moved"]
    before: str | None = None
    after: str | None = None
    moved_from: str | None = None
    call_id: str = ""
    by: str = ""


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
    reason: str = ""


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


class StepReached(Event):
    """Preparing a workspace or delivering a change has come to its next step."""

    type: Literal["step.reached"] = "step.reached"
    step: Literal["cloning", "looking", "branching", "committing", "pushing", "opening"]
    message: str
    run_id: str = ""


class DeliveryAsked(Event):
    """Somebody wants what a run did to be handed over once more; `failing` says that its tests may fail."""

    type: Literal["delivery.asked"] = "delivery.asked"
    run_id: str
    by: str
    failing: bool = False


class DeliveryEnded(Event):
    """What a run did was handed over, or why it was not; the last word on a run that was to be delivered.

    `cancelled`: nobody wants it any more, and what was said when it was asked for no longer holds.
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


class ReviewGiven(Event):
    """A change was read, and this is what was found; the last word on a run that was to review."""

    type: Literal["review.given"] = "review.given"
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
    """Somebody wants a run that has ended to go on. Limits that are given replace those of before."""

    type: Literal["run.resumed"] = "run.resumed"
    run_id: str
    by: str = ""
    model: str = ""
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None


class RunEnded(Event):
    """The agent is done with a prompt, in exactly one way."""

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
