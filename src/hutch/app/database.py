"""The database of an installation, from its settings."""

from hutch.app import vault_secrets_and_redactor
from hutch.settings import LoadedSettings
from hutch.store.database_location import DatabaseLocation, PostgresqlDatabase


def database_of(loaded: LoadedSettings) -> DatabaseLocation:
    """The file of SQLite, or the database in PostgreSQL with its password. Blocks the thread."""
    url = loaded.settings.database.url
    return loaded.paths.database if url is None else postgresql_at(loaded, url)


def postgresql_at(loaded: LoadedSettings, url: str) -> PostgresqlDatabase:
    """A database in PostgreSQL, with the password of the installation's."""
    passwords = vault_secrets_and_redactor.secrets_of(loaded, {"database_password"}).values()
    return PostgresqlDatabase(url, loaded.paths.data, "".join(passwords))
