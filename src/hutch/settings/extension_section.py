"""The settings of extensions."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Section


def _absolute(value: Path) -> Path:
    if not value.is_absolute() or "\0" in str(value):
        raise ValueError("It should be an absolute path: /srv/hutch/extensions.json")
    return value


class Extensions(Section):
    """Programs of others that give the agent tools."""

    catalogue: Annotated[Path | None, AfterValidator(_absolute), RepositoryAccess.NEVER] = Field(
        None,
        description="The file that lists extensions, which a team may share. `extensions.json` beside the "
        "settings file when not set. Each must be approved here. See [extensions.md](extensions.md).",
    )
