"""A session of a server, a queued run, and an input of a session."""

from dataclasses import field
from typing import Literal

from hutch.domain.generation_options import NO_GENERATION, Generation
from hutch.domain.ids import RunId, SessionId
from hutch.domain.run_limits import NO_LIMITS, RunLimits
from hutch.domain.session_jail_resource_limits import NO_RESOURCES, Resources
from hutch.domain.user_given_starter_files import NO_FILES, StarterFiles
from hutch.system.lazy_dataclass import dataclass

SessionState = Literal["queued", "starting", "idle", "running", "waiting", "paused", "parked", "ended"]
"""`queued` and `starting` before its workspace is there; `idle` with a jail and without a run; `waiting`
for an approval or an answer; `parked` without a jail, until its next use."""
RunState = Literal["queued", "running", "held", "ended"]  # held: stopped by a pause
RunKind = Literal["prepare", "prompt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """Several agents work on the same prompt, and the best result is taken. Try number N has the Nth model,
    persona and temperature, and begins again after the last of them."""

    count: int = 0  # 0: one agent, as usual
    models: tuple[str, ...] = ()
    personas: tuple[str, ...] = ()
    temperatures: tuple[float, ...] = ()
    checks: tuple[str, ...] = ()  # commands that judge a result; the agents do not see them
    reviewer: str = ""  # the persona that reviews the results; empty: none
    stops_early: bool = True  # as soon as one result is clearly good


NO_TRIES = Tries()


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How the work of a session is delivered."""

    title: str = ""  # empty: the agent chooses it
    branch: str = ""  # to merge into; empty: the branch that the workspace started from
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    tests: str = ""  # the test command that decides; empty: detected
    issue: str = ""  # the URL of the issue or comment that asked for it
    once: bool = False  # a single request: its files are kept for hours, not for days
    in_place: bool = False  # a user works in the directory itself: its workspace is no copy
    interview: bool = False  # the room of an interview: it has a log, and nothing runs in it
    plain_directory: bool = False  # the repository may be a directory without git, which is copied completely
    unattended: bool = False  # no user answers: approvals are denied at once
    author: str = ""  # `Name <address>`; empty: from the settings
    uncommitted: bool = False  # include uncommitted changes
    start_in: str = ""  # the directory of the repository in which shells start; empty: its root
    record: str = ""  # a cassette file that records the model's replies
    titled: bool = False  # the purpose is only a title for lists, which Hutch made
    starter_files: int = 0  # how many files were given with the request, instead of a repository
    review: str = ""  # the change id or pull request URL to review; then nothing is delivered
    agent: str = ""  # the name or the command of an external agent; empty: Hutch's own agent works
    task: str = ""  # the id of the task that an agent was assigned to; its agent gets the tool `update_task`
    tries: Tries = NO_TRIES


DEFAULT_DELIVERY = Delivery()


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperRights:
    """The rights of a helper's agent: at most those that its parent's agent had when it delegated."""

    depth: int = 0  # 1 is the helper of an ordinary session
    tools: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    default: str = "allow"  # where no rule applies
    extensions: tuple[str, ...] = ()  # tools of extensions, as `files__read`


NO_HELPER = HelperRights()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A request for a session; empty fields take the values of the persona and the settings."""

    purpose: str = ""
    role: str = ""
    company: str = ""
    expectations: str = ""
    repository: str = ""
    plain_directory: bool = False  # it may be one without git, which is copied completely
    files: StarterFiles = field(default_factory=lambda: NO_FILES)  # instead of a repository
    revision: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # of every command in its jail
    secrets: tuple[str, ...] = ()  # names of secrets that its jail gets as variables
    limits: RunLimits = NO_LIMITS
    resources: Resources = NO_RESOURCES
    generation: Generation = NO_GENERATION
    deliver: bool = False
    delivery: Delivery = DEFAULT_DELIVERY
    prompt: str = ""  # the first one; empty: the session is only prepared


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """The purpose and the permissions of a session; its events are in its log."""

    id: SessionId
    owner: str
    purpose: str = ""
    role: str = ""
    company: str = ""
    expectations: str = ""
    repository: str = ""  # empty: the workspace starts empty, or with starter files
    revision: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()  # of every command in its jail
    secrets: tuple[str, ...] = ()  # names of secrets that its jail gets as variables
    limits: RunLimits = NO_LIMITS  # besides those of the persona and the defaults
    resources: Resources = NO_RESOURCES  # of its commands, besides those of the settings
    generation: Generation = NO_GENERATION  # of the model's replies, besides those of the persona
    deliver: bool = False  # a run that changed files ends in a Change
    delivery: Delivery = DEFAULT_DELIVERY
    workspace_id: str = ""
    forked_from: str = ""  # `SESSION@SNAPSHOT`
    parent: str = ""  # the session whose agent delegated a task to this one
    helper: HelperRights = NO_HELPER
    state: SessionState = "queued"
    reason: str = ""
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rerun:
    """A request to run a recorded session again from a point; empty fields stay as they were."""

    event: int  # its number: what came later is done again
    model: str = ""
    persona: str = ""
    prompt: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """The result of the latest delivery of a run."""

    outcome: str  # proposed, nothing, failed
    reason: str = ""
    failing: bool = False  # its tests fail, and no user had accepted that
    change_id: str = ""
    url: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run in the queue."""

    id: RunId
    session_id: SessionId
    owner: str
    kind: RunKind = "prompt"
    prompt: str = ""
    generation: Generation = NO_GENERATION  # of this run, besides those of its session
    input: int = 0
    state: RunState = "queued"
    worker: str = ""
    lease_until_ms: int = 0
    queued_ms: int
    started_ms: int = 0
    ended_ms: int = 0
    outcome: str = ""
    reason: str = ""
    trace_id: str = ""  # of the request that queued it
    delivered: DeliveryResult | None = None  # None when no delivery was tried


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInput:
    """An input with its number in the session's log of inputs."""

    session_id: SessionId
    seq: int
    at_ms: int
    by: str
    body: str  # JSON
    processed: bool = False
    audience: str | None = None  # of the question that it answers; None: everyone who may see the session
