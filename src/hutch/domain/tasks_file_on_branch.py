"""A TASKS.md on a branch that a server keeps in step with the stored tasks."""

from typing import Literal, get_args

from hutch.system.lazy_dataclass import dataclass

TasksFileMode = Literal["commit", "change"]
TASKS_FILE_MODES: tuple[TasksFileMode, ...] = get_args(TasksFileMode)


@dataclass(frozen=True, slots=True, kw_only=True)
class TasksFileOnBranch:
    """The place of the file of a repository, and its texts at the last sync."""

    repository: str  # its name
    address: str
    branch: str
    path: str
    mode: TasksFileMode  # commit to the branch itself, or propose a change for it
    base_text: str = ""  # after the last sync
    branch_text: str = ""  # of the branch at the last sync; `base_text` once the change is merged
    change_id: str = ""  # the change that proposes `base_text`; it may be closed since
    problem: str = ""  # of the last sync
    set_by: str = ""  # the user on whose behalf it is synced
    synced_ms: int = 0
