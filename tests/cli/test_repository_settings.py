"""`.hutch/config.toml` of a repository counts in every command that works on it."""

import json
from collections.abc import Iterator

import pytest

from tests.cli.hutch_up_process import Home
from tests.cli.project_with_failing_test import FIXES, Project, call, lines, temporary_project
from tests.forge.repositories import commit

MARK = "the-tests-of-the-repository"
CONFIG = f"""
persona = "reviewer"
model = "openai:expensive"

[tests]
command = "echo {MARK}"

[jail]
processes = 77
memory_bytes = "1TiB"
"""
LOOKS = (
    {"calls": [call("run_tests"), call("bash", command="echo limit $(ulimit -u)")]},
    {"calls": [call("bash", command="echo '[tests]' > .hutch/config.toml"), call("run_tests")]},
    {"calls": [call("finish", title="Looked", summary="Nothing to do.")]},
)


@pytest.fixture
def project() -> Iterator[Project]:
    with temporary_project() as made:
        commit(made.work, {".hutch/config.toml": CONFIG})
        yield made


def check_counted(output: str) -> None:
    result = [each["event"] for each in lines(output) if each["type"] == "event"]
    (started,) = [each for each in result if each["type"] == "run.started"]
    assert started["persona"] == "reviewer"
    assert [each["command"] for each in result if each["type"] == "tests.run"][:2] == [f"echo {MARK}"] * 2
    results = [each["text"] for each in result if each["type"] == "tool.returned"]
    # Where there is a cgroup, the limit of each process is a little higher.
    assert results[1].strip() in ("limit 77", "limit 141")
    warnings = [
        each["message"] for each in result if each["type"] == "step.reached" and "config.toml" in str(each)
    ]
    assert [("model" in each, "jail.memory_bytes" in each) for each in warnings] == [
        (True, False),
        (False, True),
    ], "what is ignored is said, once"


def test_a_run_uses_the_settings_of_the_repository_as_they_were_at_its_start(project: Project) -> None:
    ran = project.run("--json", "--no-pr", replies=LOOKS)
    assert ran.returncode == 0, ran.stderr
    check_counted(ran.stdout)


def test_a_repository_in_layers_has_settings_too(project: Project) -> None:
    ran = project.run("--json", "--no-pr", replies=LOOKS, HUTCH_WORKSPACE__MODE="overlay")
    assert ran.returncode == 0, ran.stderr
    check_counted(ran.stdout)


def test_uncommitted_settings_count_when_uncommitted_changes_are_included(project: Project) -> None:
    (project.work / ".hutch/config.toml").write_text('[tests]\ncommand = "echo changed"\n')
    for mode in ("copy", "overlay"):
        ran = project.run("--json", "--no-pr", "--uncommitted", replies=LOOKS, HUTCH_WORKSPACE__MODE=mode)
        result = [each["event"] for each in lines(ran.stdout) if each["type"] == "event"]
        assert [each["command"] for each in result if each["type"] == "tests.run"][:1] == ["echo changed"]


def test_a_server_uses_the_settings_of_the_repository(project: Project) -> None:
    with Home(project.place).up("--port", "0"):
        ran = project.run("--json", "--no-pr", "--server", replies=LOOKS)
    assert ran.returncode == 0, ran.stderr
    check_counted(ran.stdout)


def test_a_link_as_the_settings_file_is_ignored_and_reported(project: Project) -> None:
    file = project.work / ".hutch/config.toml"
    file.unlink()
    file.symlink_to("/etc/hostname")
    commit(project.work, {"more.txt": "more\n"})
    ran = project.run("--no-pr")
    assert "warning: '.hutch/config.toml' is ignored: it cannot be opened, or is a link." in ran.stdout


def test_a_persona_that_does_not_exist_is_blamed_on_the_repository(project: Project) -> None:
    commit(project.work, {".hutch/config.toml": 'persona = "nobody"\n'})
    ran = project.run("--no-pr")
    assert ran.returncode != 0
    assert "There is no persona 'nobody', which '.hutch/config.toml' names." in ran.stdout + ran.stderr
    assert project.run("--no-pr", "--persona", "engineer").returncode == 0


def test_a_review_uses_the_settings_of_the_repository(project: Project) -> None:
    assert project.run("--persona", "engineer", replies=FIXES).returncode == 0
    looks = ({"calls": [call("run_tests")]}, {"calls": [call("finish", title="Good.", summary="")]})
    ran = project.hutch("review", "--json", "--model", project.cassette(*looks))
    assert ran.returncode == 0, ran.stderr
    result = [each["event"] for each in lines(ran.stdout) if each["type"] == "event"]
    assert [each["command"] for each in result if each["type"] == "tests.run"] == [f"echo {MARK}"]


def test_an_evaluation_uses_the_settings_of_the_repository_and_says_what_it_ignores(project: Project) -> None:
    task = {
        "name": "look",
        "prompt": "Look.",
        "repo": str(project.work),
        "hidden_tests": {"hidden.txt": "x"},
        "cassette": {"replies": LOOKS},
    }
    (project.place / "set.json").write_text(json.dumps({"tasks": [task]}))
    ran = project.hutch("eval", str(project.place / "set.json"), "--json", str(project.place / "report.json"))
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (result,) = json.loads((project.place / "report.json").read_text())["tasks"]
    assert [each["command"] for each in result["tests"]] == [f"echo {MARK}"]
    assert ran.stderr.count("'.hutch/config.toml' sets model") == 1


def test_doctor_tries_the_test_command_of_the_repository(project: Project) -> None:
    checks = json.loads(project.hutch("doctor", "--json").stdout)["checks"]
    (tests,) = [each["found"] for each in checks if each["name"] == "tests"]
    assert f"echo {MARK}" in tests
