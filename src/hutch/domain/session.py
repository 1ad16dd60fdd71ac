"""A session of a server, a run in its queue, and an input that was given to it."""

from dataclasses import dataclass
from typing import Literal

from hutch.domain.ids import RunId, SessionId
from hutch.domain.run_limits import NO_LIMITS, RunLimits

SessionState = Literal["queued", "starting", "idle", "running", "waiting", "paused", "parked", "ended"]
"""`queued` and `starting` before its workspace is there; `idle` with a jail and nothing to do; `waiting`
for an approval or an answer; `parked` without a jail, until somebody needs it."""
RunState = Literal["queued", "running", "held", "ended"]  # held: stopped by a pause
RunKind = Literal["prepare", "prompt"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """How what is done is to be handed over."""

    title: str = ""  # empty: as the agent calls it
    branch: str = ""  # that it is for; empty: where the workspace began
    draft: bool = False
    labels: tuple[str, ...] = ()
    reviewers: tuple[str, ...] = ()
    tests: str = ""  # the command that has the last word; empty: found by looking
    issue: str = ""  # the address of what asked for it
    once: bool = False  # it is one request: what it leaves on disk is kept for hours, not for days
    plain_directory: bool = False  # the repository may be a directory without git, which is copied whole
    unattended: bool = False  # nobody answers: what would be asked is denied at once
    author: str = ""  # `Name <address>`; empty: as the settings say
    uncommitted: bool = False  # begin with what is changed and not committed, too
    record: str = ""  # a file in which the model's replies are kept as a cassette
    review: str = ""  # a change's id or a pull request's address, when it is read and nothing is delivered


DEFAULT_DELIVERY = Delivery()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSession:
    """A request for a session; empty fields are as the persona and the settings say."""

    purpose: str = ""
    role: str = ""
    expectations: str = ""
    repository: str = ""
    plain_directory: bool = False  # it may be one without git, which is copied whole
    revision: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    limits: RunLimits = NO_LIMITS
    deliver: bool = False
    delivery: Delivery = DEFAULT_DELIVERY
    prompt: str = ""  # the first one; without, the session is only made ready


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What a session is for and what it may; its log tells what happened."""

    id: SessionId
    owner: str
    purpose: str = ""
    role: str = ""
    expectations: str = ""
    repository: str = ""  # empty: it begins with nothing
    revision: str = ""
    persona: str = ""
    model: str = ""
    network: tuple[str, ...] = ()
    limits: RunLimits = NO_LIMITS  # beside those of the persona and the usual ones
    deliver: bool = False  # a run that changed something ends in a Change
    delivery: Delivery = DEFAULT_DELIVERY
    workspace_id: str = ""
    forked_from: str = ""  # `SESSION@SNAPSHOT`
    state: SessionState = "queued"
    reason: str = ""
    created_ms: int
    updated_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryResult:
    """How handing over what a run did ended, the last time."""

    outcome: str  # proposed, nothing, failed
    reason: str = ""
    failing: bool = False  # its tests fail, and nobody had said that this is known
    change_id: str = ""
    url: str = ""
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedRun:
    """A run as the queue knows it."""

    id: RunId
    session_id: SessionId
    owner: str
    kind: RunKind = "prompt"
    prompt: str = ""
    input: int = 0
    state: RunState = "queued"
    worker: str = ""
    lease_until_ms: int = 0
    queued_ms: int
    started_ms: int = 0
    ended_ms: int = 0
    outcome: str = ""
    reason: str = ""
    trace_id: str = ""  # of the request that wanted it
    delivered: DeliveryResult | None = None  # None where that was not tried


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionInput:
    """An input at its place in the session's log of inputs."""

    session_id: SessionId
    seq: int
    at_ms: int
    by: str
    body: str  # JSON
    taken: bool = False
    audience: str | None = None  # of the question that it answers; None: everyone who may see the session
