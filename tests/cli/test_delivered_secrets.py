"""A secret of the jail that a run writes into a file does not leave in the delivered change."""

from pathlib import Path

from hutch.cli import exit_codes
from tests.cli.project_with_failing_test import FIX, Project, call
from tests.forge.repositories import git

VALUE = "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"
FINISH = {"calls": [call("finish", title="Add", summary="The sign was wrong.")], "times": 5}
TOKEN = "a1B2" * 9


def replies(command: str) -> tuple[dict[str, object], ...]:
    return ({"calls": [call("edit_file", **FIX), call("bash", command=command)]}, FINISH)


def test_a_stored_secret_is_never_delivered(tmp_path: Path) -> None:
    project = Project(tmp_path / "place")
    assert project.hutch("config", "set-secret", "jail_api_key", stdin=f"{VALUE}\n").returncode == 0
    ran = project.run("--secret", "API_KEY", replies=replies("echo key=$API_KEY > settings.ini"))
    assert ran.returncode == exit_codes.DENIED, ran.stdout + ran.stderr
    assert "not delivered: 'settings.ini' contains the value of a stored secret" in ran.stdout
    assert project.hutch("changes", "propose").returncode != 0
    assert git(project.work, "for-each-ref", "--format=%(refname:short)", "refs/heads").split() == ["main"]
    assert VALUE not in ran.stdout + ran.stderr


def test_a_suspected_credential_is_delivered_once_a_user_has_confirmed_it(tmp_path: Path) -> None:
    project = Project(tmp_path / "place")
    ran = project.run(replies=replies(f"printf 'key=gh%s_%s' p {TOKEN} > settings.ini"))
    assert ran.returncode == exit_codes.DENIED, ran.stdout + ran.stderr
    assert "'settings.ini' contains what looks like a credential (github_token)" in ran.stdout
    assert "deliver anyway: hutch changes propose" in ran.stdout
    again = project.hutch("changes", "deliver")
    assert (again.returncode, "hutch changes propose" in again.stderr) == (exit_codes.BAD_REQUEST, True)
    confirmed = project.hutch("changes", "propose")
    assert confirmed.returncode == 0, confirmed.stdout + confirmed.stderr
    assert TOKEN in git(project.work, "show", "hutch/add:settings.ini")
