"""Settings of helpers: agents to which the agent of a session delegates parts of its task."""

from typing import Annotated

from pydantic import Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Count, Section


class Helpers(Section):
    """How many helpers an agent may start with the tool `delegate`."""

    depth: Annotated[Count, RepositoryAccess.NEVER] = Field(
        1, ge=0, le=5, description="Levels of helpers: 0 for none, 2 if helpers may have helpers themselves."
    )
    per_run: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8, ge=1, le=100, description="Helpers that one run may start."
    )
    parallel: Annotated[Count, RepositoryAccess.NEVER] = Field(
        4, ge=1, le=32, description="Helpers of one call that work at the same time; the others wait."
    )
    parallel_tries: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8, ge=1, le=32, description="Tries of one run (`hutch run --tries`) that work at the same time."
    )
