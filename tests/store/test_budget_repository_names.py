"""Budgets of an earlier version name a repository by its address; the upgrade gives them its name."""

import importlib
from collections.abc import Iterator

import pytest
from alembic.migration import MigrationContext
from alembic.operations import Operations
from sqlalchemy import Connection, create_engine, insert, select, text

from hutch.store.analytics_tables import budget_reservations, budget_spending, budgets
from hutch.store.schema import metadata

UPGRADE = importlib.import_module("hutch.store.migrations.versions.0032_budget_names_and_run_costs")
OLD = ("https://github.com/acme/shop", "git@github.com:acme/shop", "")


@pytest.fixture
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as opened:
        metadata.create_all(opened, [budgets, budget_spending, budget_reservations])
        opened.execute(text("CREATE TABLE analytics_runs (session_id TEXT, run_id TEXT)"))
        yield opened
    engine.dispose()


def test_budgets_and_what_was_spent_of_them_get_the_name(connection: Connection) -> None:
    common = {"limit_nano_usd": 9, "created_by": "usr_o", "created_ms": 1}
    for scope, target in (("repository", OLD[0]), ("user", "usr_a"), ("installation", "")):
        connection.execute(insert(budgets).values(id=scope, scope=scope, target=target, **common))
    for cost, repository in enumerate(OLD, start=1):
        place = {"month": "2026-11", "user_id": "usr_a", "repository": repository, "cost_nano_usd": cost}
        connection.execute(insert(budget_spending).values(place))
        connection.execute(insert(budget_reservations).values(**place, id=str(cost), until_ms=1))
    with Operations.context(MigrationContext.configure(connection)):
        UPGRADE.upgrade()
    targets = {row.scope: row.target for row in connection.execute(select(budgets.c.scope, budgets.c.target))}
    assert targets == {"repository": "github.com/acme/shop", "user": "usr_a", "installation": ""}
    spending = select(budget_spending.c.repository, budget_spending.c.cost_nano_usd)
    spent = {row.repository: row.cost_nano_usd for row in connection.execute(spending)}
    assert spent == {"github.com/acme/shop": 3, "": 3}
    reserved = connection.scalars(select(budget_reservations.c.repository)).all()
    assert sorted(reserved) == ["", "github.com/acme/shop", "github.com/acme/shop"]
