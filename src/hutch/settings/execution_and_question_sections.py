"""Settings of running given code, and of the questions of interviews."""

from typing import Annotated

from pydantic import ByteSize, Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import MIB, Count, Directories, Section, Size


class Execution(Section):
    """How much given code may use: `POST /api/v1/execute`, and the tests of questions."""

    timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=1,
        le=600,
        description="Seconds that all cases of an execution may take together. "
        "Compiling may take as long again.",
    )
    case_timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        10, ge=1, le=600, description="Seconds that one case may take, unless it sets fewer."
    )
    memory_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(512 * MIB), ge=64 * MIB, description="Memory of all processes of one case together."
    )
    output_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(1 * MIB),
        ge=1024,
        le=64 * MIB,
        description="Size of each output stream of a case; more is omitted from its middle.",
    )
    concurrency: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None,
        ge=1,
        le=1000,
        description="Executions at the same time; others wait. By default as many as there are processors.",
    )


class Questions(Section):
    """The questions of interviews."""

    banks: Annotated[Directories, RepositoryAccess.NEVER] = Field(
        (),
        description="Directories with questions, each in a folder of its own, besides those that come with "
        "Hutch. See [questions.md](questions.md).",
    )
