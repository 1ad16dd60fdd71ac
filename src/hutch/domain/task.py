"""A task: work that a person or an agent is to do, and when it counts as done.

`TaskFields` are the fields that a line of `docs/TASKS.md` can express; the file and the table of tasks
keep them equal. A task's key (`T-12`) is unique in its repository, its id in the installation.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, TypeVar, get_args

from hutch.domain.errors import BadRequest
from hutch.domain.one_line_text import check_line, echo
from hutch.system.lazy_dataclass import dataclass

TaskState = Literal["todo", "doing", "review", "blocked", "done", "cancelled"]
TaskPriority = Literal["", "low", "medium", "high", "urgent"]
TaskLinkKind = Literal["session", "change", "pull_request", "issue"]

TASK_STATES: tuple[TaskState, ...] = get_args(TaskState)
TASK_PRIORITIES: tuple[TaskPriority, ...] = get_args(TaskPriority)
TASK_LINK_KINDS: tuple[TaskLinkKind, ...] = get_args(TaskLinkKind)
ENDED_STATES: frozenset[TaskState] = frozenset({"done", "cancelled"})
PERSONA_OWNER = "persona:"  # the prefix of an owner that is a persona, as in `persona:engineer`

MAX_TITLE_CHARS = 1000
MAX_DESCRIPTION_CHARS = 100_000
NOBODY = "-"  # in a filter: tasks without an owner
MAX_NAME_CHARS = 100  # of owners, labels, milestones and estimates
MAX_LISTED = 200  # criteria, labels or dependencies of a task

KEY_PATTERN = r"[A-Z][A-Z0-9]{0,9}-\d{1,9}(?:\.\d{1,9}){0,5}|T\d{2,6}|#\d{1,9}"
LABEL_PATTERN = r"[^\W\d_][\w./:+-]*"
Word = TypeVar("Word", bound=str)
_KEY = re.compile(KEY_PATTERN)
_LABEL = re.compile(LABEL_PATTERN)
# A heading with one of these words gives the tasks under it a state, so no milestone has such a name.
_STATE_WORDS: dict[TaskState, str] = {
    "todo": "todo|to do|backlog|open|planned|next|up next|not started|upcoming|new|ready",
    "doing": "doing|in progress|wip|work in progress|active|current|started|ongoing|now",
    "review": "review|in review|needs review|reviewing|testing|in testing|qa",
    "blocked": "blocked|on hold|waiting|stuck|paused",
    "done": "done|completed|complete|finished|closed|shipped|resolved",
    "cancelled": "cancelled|canceled|dropped|wont do|won't do|abandoned|rejected|not planned",
}
_STATE_OF_WORDS = {words: state for state, listed in _STATE_WORDS.items() for words in listed.split("|")}
_DECORATION = re.compile(r"^[\W_]+|[\W_]+$")
_COUNT = re.compile(r"\s*[(\[]\d+[)\]]\s*$")


@dataclass(frozen=True, slots=True)
class AcceptanceCriterion:
    """A condition of a task that is checked at the end."""

    text: str
    done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFields:
    """The fields of a task that `docs/TASKS.md` can express. `labels` and `depends_on` are sorted."""

    title: str
    state: TaskState = "todo"
    owner: str = ""  # a user's name, or `persona:NAME`
    priority: TaskPriority = ""
    estimate: str = ""  # such as `3h` or `5 points`
    milestone: str = ""
    labels: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()  # keys of tasks in the same repository
    criteria: tuple[AcceptanceCriterion, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskLink:
    """Something that belongs to a task: `target` is the id of a session or change, or a URL."""

    kind: TaskLinkKind
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A stored task. `revision` rises with every change of it."""

    id: str
    repository: str  # a URL, or a directory of this machine; empty when it belongs to none
    address: str = ""  # of the repository, as git gets it; empty when it is not known
    key: str
    fields: TaskFields
    description: str = ""
    links: tuple[TaskLink, ...] = ()
    revision: int = 1
    archived: bool = False  # removed from the list, with its history kept
    created_by: str
    created_ms: int
    updated_ms: int


TaskEventKind = Literal["created", "changed", "archived", "restored", "comment", "progress", "conflict"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskEvent:
    """Something that happened to a task: a change of fields, a comment, a line of its progress log."""

    id: int
    task_id: str
    kind: TaskEventKind
    revision: int  # of the task, after it
    by: str  # the id of a user, or `hutch`
    by_name: str = ""  # the name of that user; empty for an erased one
    at_ms: int
    note: str = ""
    changes: Mapping[str, tuple[object, object]]  # the old and the new value by field


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskViewer:
    """A user who may not see all tasks: those of remote repositories, of directories below `roots`, and their
    own tasks without a repository."""

    user_id: str
    name: str
    roots: tuple[str, ...] = ()  # names of directories

    def sees_repository(self, repository: str) -> bool:
        """True if the user may see the tasks of a repository, by its name."""
        if not repository.startswith("/"):
            return bool(repository)
        return any(repository == root or repository.startswith(f"{root}/") for root in self.roots)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFilter:
    """Which tasks to list; empty values do not restrict."""

    repository: str = ""
    states: tuple[TaskState, ...] = ()
    owner: str = ""  # or NOBODY
    label: str = ""
    milestone: str = ""
    priority: TaskPriority = ""
    text: str = ""  # in the key, the title or the description
    link: str = ""  # the id of a session or change, or a URL
    archived: bool = False
    viewer: TaskViewer | None = None  # None: all tasks


def heading_state(heading: str) -> TaskState | None:
    """The state that a heading such as `In progress (3)` names, or None."""
    plain = _DECORATION.sub("", _COUNT.sub("", heading)).casefold()
    return _STATE_OF_WORDS.get(" ".join(plain.replace("-", " ").split()))


def check_key(key: str) -> str:
    if not _KEY.fullmatch(key):
        raise BadRequest(f"{echo(key)} cannot be the key of a task. One looks like T-12.")
    return key


def task_fields(
    *,
    title: str,
    state: str = "todo",
    owner: str = "",
    priority: str = "",
    estimate: str = "",
    milestone: str = "",
    labels: Iterable[str] = (),
    depends_on: Iterable[str] = (),
    criteria: Iterable[AcceptanceCriterion] = (),
) -> TaskFields:
    """Check fields that came from outside, and put them in the form in which they are stored."""
    for name, text in {"owner": owner, "estimate": estimate, "milestone": milestone}.items():
        _check_text(f"The {name} of a task", text, MAX_NAME_CHARS)
    if heading_state(milestone):
        raise BadRequest(f"{echo(milestone)} is the name of a state, so no milestone can have it.")
    found = TaskFields(
        title=_required("The title of a task", title),
        state=_one_of("state", state, TASK_STATES),
        owner=owner.strip(),
        priority=_one_of("priority", priority, TASK_PRIORITIES),
        estimate=estimate.strip(),
        milestone=_DECORATED_END.sub("", milestone.strip()),
        labels=tuple(sorted({_label(each) for each in labels})),
        depends_on=tuple(sorted({check_key(each) for each in depends_on})),
        criteria=tuple(
            AcceptanceCriterion(_required("An acceptance criterion", each.text), each.done)
            for each in criteria
        ),
    )
    for name, count in (
        ("labels", len(found.labels)),
        ("dependencies", len(found.depends_on)),
        ("acceptance criteria", len(found.criteria)),
    ):
        if count > MAX_LISTED:
            raise BadRequest(f"A task has at most {MAX_LISTED} {name}; this one has {count}.")
    return found


_DECORATED_END = re.compile(r"(?:\s+#+)+\s*$|^#+$")  # Markdown drops it from the end of a heading


def _one_of(what: str, text: str, words: tuple[Word, ...]) -> Word:
    for word in words:
        if word == text:
            return word
    raise BadRequest(f"{echo(text)} is no {what} of a task. Use one of: {', '.join(filter(None, words))}.")


def _required(what: str, text: str) -> str:
    _check_text(what, text, MAX_TITLE_CHARS)
    if not text.strip():
        raise BadRequest(f"{what} cannot be empty.")
    return text.strip()


def _label(text: str) -> str:
    _check_text("A label", text, MAX_NAME_CHARS)
    if not _LABEL.fullmatch(text.strip()):
        raise BadRequest(f"{echo(text)} cannot be a label: a letter, then letters, digits and . / : + - _")
    return text.strip()


def _check_text(what: str, text: str, max_chars: int) -> None:
    check_line(what, text)
    if len(text) > max_chars:
        raise BadRequest(f"{what} has at most {max_chars:,} characters; this one has {len(text):,}.")
