"""Run by alembic with the connection and the transaction that `database.py` opened."""

from alembic import context

from hutch.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=False,  # the caller's BEGIN IMMEDIATE spans all steps; SQLite rolls DDL back too
)
context.run_migrations()
