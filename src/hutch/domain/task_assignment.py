"""The assignment of a task to an agent: one piece of work, from the queue to a merged change.

It moves `waiting` → `working` → `reviewing` → `proposed` → `done`. A task has at most one open assignment.
"""

from typing import Literal, get_args

from hutch.system.lazy_dataclass import dataclass

AssignmentState = Literal["waiting", "working", "reviewing", "proposed", "done", "failed", "cancelled"]
EvidenceKind = Literal["test", "file"]

ASSIGNMENT_STATES: tuple[AssignmentState, ...] = get_args(AssignmentState)
OPEN_ASSIGNMENT_STATES: tuple[AssignmentState, ...] = ("waiting", "working", "reviewing", "proposed")
# An agent works on these. A limit on their number per repository keeps agents apart.
BUSY_ASSIGNMENT_STATES: tuple[AssignmentState, ...] = ("working", "reviewing")
MAX_REWORKS = 2  # runs after a review that asked for changes


@dataclass(frozen=True, slots=True, kw_only=True)
class CriterionEvidence:
    """A test or a file that shows that an acceptance criterion is met."""

    criterion: str  # its text
    kind: EvidenceKind
    target: str  # the name of the test, or the path of the file
    test_run: str = ""  # the run in which the test passed
    at_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskAssignment:
    """An agent's work on a task. `reason` says why it is in its state, or what it waits for."""

    id: str
    task_id: str
    repository: str  # that of the task
    address: str  # of the repository, as git gets it; empty: a session without a repository
    persona: str
    model: str = ""
    reviewer: str = ""  # a persona that must review the change; empty: none
    merges: bool = False  # merge the change when nothing objects to it
    assigned_by: str  # the id of a user, whose rights the agent has
    delivery_id: str = ""  # of the forge request that asked for it
    state: AssignmentState = "waiting"
    reason: str = ""
    session_id: str = ""
    input: int = 0  # the input of the session that began the newest work; 0: its first prompt
    review_session_id: str = ""
    change_id: str = ""
    reworks: int = 0
    evidence: tuple[CriterionEvidence, ...] = ()
    files: tuple[str, ...] = ()  # of its change
    created_ms: int
    updated_ms: int

    @property
    def is_open(self) -> bool:
        return self.state in OPEN_ASSIGNMENT_STATES
