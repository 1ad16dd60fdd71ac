"""Settings of tasks: how many agents work at a time, and automatic assignment."""

from typing import Annotated

from pydantic import Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Count, Section, Texts


class Tasks(Section):
    """Agents at work on tasks, and automatic assignment."""

    agents_per_repository: Annotated[Count, RepositoryAccess.NEVER] = Field(
        2,
        ge=1,
        le=1000,
        description="Agents that work on tasks of one repository at the same time; other tasks wait. "
        "See [tasks.md](tasks.md#assign-a-task-to-an-agent).",
    )
    auto_assign: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False,
        description="Give tasks without an owner to the best candidate of `tasks.skills`. "
        "`hutch tasks assign --auto --dry-run` shows what it would do.",
    )
    skills: Annotated[Texts, RepositoryAccess.NEVER] = Field(
        (),
        description="The candidates of automatic assignment and the labels that they know, as "
        "`OWNER=LABEL LABEL`: `alice=python docs`, `persona:engineer=bug`.",
    )
