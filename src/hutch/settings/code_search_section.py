"""Settings of the search in code."""

from typing import Annotated

from pydantic import Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Count, ModelName, Section


class Search(Section):
    """How the tool `search_code` finds code."""

    embeddings: Annotated[ModelName | None, RepositoryAccess.NEVER] = Field(
        None,
        description="A model for search by meaning, as `provider:name`; it gets the text of the files, "
        "without known secrets. When not set, code is searched by words and symbols only.",
    )
    dimensions: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None,
        ge=8,
        le=8192,
        description="Numbers in a vector, for models that can shorten theirs; "
        "when not set, the model decides.",
    )
