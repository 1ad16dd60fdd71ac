"""The check of a database in PostgreSQL."""

from hutch.domain.errors import HutchError
from hutch.jail.machine_checks import Check
from hutch.store.database_location import PostgresqlDatabase

MIB = 1024**2
CONTINUE = {"copying": "has not ended", "moved": "moved its rows to SQLite"}


def check_postgresql(location: PostgresqlDatabase) -> tuple[Check, int | None]:
    """The check, and the time of the newest event if the database has one."""
    from hutch.store.postgresql_check import inspect_postgresql

    try:
        state = inspect_postgresql(location)
    except HutchError as error:
        fix = "hutch config set-secret database_password  # or correct database.url, or start the server"
        return Check("database", "fail", str(error), fix), None
    found = f"{state.size_bytes / MIB:.1f} MiB at {location}, PostgreSQL {state.version}"
    found += f", schema {state.revision or 'none'}"
    if state.migration:
        fix = f"hutch migrate --to '{location}'"
        found += f"; a migration {CONTINUE.get(state.migration, state.migration)}"
        return Check("database", "fail", found, fix), state.newest_ms
    if state.is_newer:
        return Check("database", "fail", f"{found}, of a newer Hutch", "Upgrade Hutch."), state.newest_ms
    return Check("database", "ok", found), state.newest_ms
