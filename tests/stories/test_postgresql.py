"""An installation moves to PostgreSQL, works there through a server, and comes back."""

import json
from collections.abc import Iterator

import pytest

from hutch.store.database_location import PostgresqlDatabase
from tests.cli.project_with_failing_test import FIXES, Project, temporary_project
from tests.postgresql_server import server

pytestmark = pytest.mark.postgresql


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        yield made


@pytest.fixture
def database(project: Project) -> Iterator[PostgresqlDatabase]:
    """A database without a schema."""
    with server().database(project.place, template="template0") as location:
        yield location


def done(project: Project, *words: str) -> str:
    ran = project.hutch(*words)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def sessions(project: Project) -> dict[str, int]:
    """The number of events of each session."""
    lines = [json.loads(line) for line in done(project, "log", "--json").splitlines()]
    return {line["session"]: line["events"] for line in lines}


def test_an_installation_moves_to_postgresql_and_back(project: Project, database: PostgresqlDatabase) -> None:
    assert project.run().returncode == 0
    before = sessions(project)
    moved = json.loads(done(project, "migrate", "--to", database.url, "--json"))
    assert (moved["logs"], moved["damaged_before"]) == (1, [])
    refused = project.hutch("log")
    assert refused.returncode != 0 and "Set database.url to that database" in refused.stderr
    settings = project.place / "home" / "config.toml"
    settings.write_text(f'[database]\nurl = "{database.url}"\n')
    checks = {each["name"]: each for each in json.loads(done(project, "doctor", "--json"))["checks"]}
    assert checks["database"]["status"] == "ok" and "PostgreSQL" in checks["database"]["found"]
    assert sessions(project) == before

    assert "Hutch is running" in done(project, "up", "--detach", "--port", "0")
    try:
        ran = project.run("--server", "--json")
        assert ran.returncode == 0, ran.stderr
        (session,) = sessions(project).keys() - before.keys()
        done(project, "undo", session)
        done(project, "sessions", "end", session)
        refused = project.hutch("migrate", "--to", "sqlite")
        assert refused.returncode != 0 and "Stop it first: hutch down" in refused.stderr
    finally:
        done(project, "down")
    done(project, "export", session, "-o", "record.zip")
    assert "ok: " in done(project, "verify", "record.zip")

    there = sessions(project)
    assert there.items() > before.items()
    done(project, "migrate", "--to", "sqlite")
    settings.unlink()
    assert sessions(project) == there
    assert project.run(replies=FIXES).returncode == 0


def test_the_password_is_a_secret_and_never_shown(project: Project) -> None:
    url = "postgresql://hutch:tulip-anvil-19@127.0.0.1:9/hutch"
    for words in (("log",), ("config", "show"), ("migrate", "--to", url)):
        ran = project.hutch(*words, **({} if "--to" in words else {"HUTCH_DATABASE__URL": url}))
        assert ran.returncode != 0 and "tulip-anvil-19" not in ran.stdout + ran.stderr
        assert "hutch config set-secret database_password" in ran.stderr
    with_secret = {
        "HUTCH_DATABASE__URL": url.replace(":tulip-anvil-19", ""),
        "HUTCH_SECRETS__DATABASE_PASSWORD": "env:PASSWORD_OF_TEST",
        "PASSWORD_OF_TEST": "tulip-anvil-19",
    }
    for words in (("log",), ("doctor",), ("config", "show"), ("up",)):
        ran = project.hutch(*words, **with_secret)
        assert "tulip-anvil-19" not in ran.stdout + ran.stderr
    assert "cannot be reached" in project.hutch("log", **with_secret).stderr
