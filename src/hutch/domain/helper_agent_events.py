"""Events of helpers: sessions to which the agent of another session delegates tasks."""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from hutch.domain.base_event import Event


class HelperStarted(Event):
    """The agent delegated a task to a helper, which works on a copy of the files in a session of its own."""

    type: Literal["helper.started"] = "helper.started"
    run_id: str
    call_id: str
    index: int
    name: str
    helper: str
    task: str
    persona: str = ""
    model: str = ""
    snapshot: int = 0
    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None
    timeout_s: float | None = None
    temperature: float | None = None


class HelperEnded(Event):
    """A helper ended its work. Its usage counts towards the limits of the run that delegated."""

    type: Literal["helper.ended"] = "helper.ended"
    run_id: str
    name: str
    helper: str
    outcome: str
    reason: str = ""
    title: str = ""
    tests: str = ""
    files: int = 0
    added: int = 0
    deleted: int = 0
    turns: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0


class HelperChangesTaken(Event):
    """The agent merged the changes of a helper into its own files, or dropped them."""

    type: Literal["helper.changes_taken"] = "helper.changes_taken"
    run_id: str
    name: str
    helper: str
    action: Literal["merged", "dropped"]
    files: tuple[str, ...] = ()
    files_count: int = 0


class TryResult(BaseModel):
    """One try, and how it was judged."""

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    name: str
    helper: str
    persona: str = ""
    model: str = ""
    temperature: float | None = None
    outcome: str = ""
    tests: str = ""
    checks_passed: int = 0
    checks: int = 0
    review: str = ""
    files: int = 0
    added: int = 0
    deleted: int = 0
    turns: int = 0
    cost_usd: float | None = None
    duration_s: float = 0.0
    why: str = ""


class TriesJudged(Event):
    """Several agents worked on the same prompt; the best result was chosen, with the reasons."""

    type: Literal["tries.judged"] = "tries.judged"
    run_id: str
    best: str = ""
    reason: str = ""
    stopped_early: bool = False
    tries: tuple[TryResult, ...] = ()


HelperEvent = TriesJudged | HelperStarted | HelperEnded | HelperChangesTaken
