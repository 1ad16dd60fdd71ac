"""The setting of the database."""

from typing import Annotated

from pydantic import AfterValidator, Field

from hutch.domain.errors import BadRequest
from hutch.domain.postgresql_url import check_postgresql_url
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import Section, Text


def _url(value: str) -> str:
    try:
        return check_postgresql_url(value)
    except BadRequest as problem:
        raise ValueError(str(problem)) from None


class Database(Section):
    """Where sessions, logs and users are stored."""

    url: Annotated[Annotated[Text, AfterValidator(_url)] | None, RepositoryAccess.NEVER] = Field(
        None,
        description="A database in PostgreSQL: `postgresql://hutch@db.example.com/hutch`. Its password is "
        "the secret `database_password`. When not set, SQLite in the data directory. To move an "
        "installation: `hutch migrate`.",
    )
