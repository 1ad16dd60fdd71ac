"""A plan in words, for people and for agents."""

from hutch.domain.dependency_plan import EnvironmentPlan, Service, SetupStep
from hutch.environment.plan_description import (
    BOTH,
    NOT_ALLOWED,
    SETTING,
    Row,
    describe_for_agent,
    describe_plan,
)

PLAN = EnvironmentPlan(
    steps=(
        SetupStep("npm ci", "package-lock.json", "npm"),
        SetupStep("# Make it importable.\nset -e", "pyproject.toml"),
        SetupStep("make \x1b[31mdeps", "x.json", is_optional=True),
    ),
    inputs=("package-lock.json",),
    variables={"A": "1"},
    session_variables={"A": "1", "GOPROXY": "off", "VIRTUAL_ENV": "/workspace/.venv"},
    path=("/workspace/node_modules/.bin",),
    hosts=("registry.example.com", "other.example.com"),
    services=(Service("db", "postgres -D data", port=5432),),
    notes=("x.json: 'image' is not used",),
)


def test_rows_say_what_runs_and_why() -> None:
    rows = describe_plan(PLAN, ("registry.example.com",))
    assert rows[0] == Row("environment", "3 commands", "detected, and run after you accept it")
    assert rows[1] == Row("run", "npm ci", "package-lock.json (npm)")
    assert [row.text for row in rows[2:4]] == ["# Make it importable.", "  set -e"]
    assert rows[4].reason == "x.json, may fail"
    assert "\x1b" not in rows[4].text
    assert Row("host", "registry.example.com", "the build may reach it") in rows
    assert Row("host", "other.example.com", NOT_ALLOWED) in rows
    assert Row("service", "db: postgres -D data", "on port 5432") in rows
    assert rows[-1] == Row("note", "x.json: 'image' is not used")
    assert [row for row in rows if row.text.startswith("A=")] == [Row("variable", "A=1", BOTH)]
    only_services = describe_plan(EnvironmentPlan(services=PLAN.services), ())
    assert only_services[0] == Row("environment", "Nothing to install was found.")


def test_commands_of_the_repository_are_not_called_detected() -> None:
    plan = EnvironmentPlan(steps=(SetupStep("make", SETTING),))
    assert describe_plan(plan, ())[0].reason == "written by the repository, and run after you accept it"


def test_an_empty_plan_says_so() -> None:
    assert describe_plan(EnvironmentPlan(), ())[0].text == "Nothing to install was found."
    assert describe_for_agent(EnvironmentPlan()) == ""


def test_the_agent_learns_what_is_installed() -> None:
    text = describe_for_agent(PLAN)
    assert "are installed already" in text
    assert ".venv, which is active" in text
    assert "db on port 5432" in text


def test_the_agent_learns_where_the_set_up_failed() -> None:
    text = describe_for_agent(PLAN, failure=[f"line {number}" for number in range(100)] + ["\x1b]0;x\x07bad"])
    assert "NOT installed" in text
    assert "line 99" in text
    assert "line 50" not in text
    assert "\x1b" not in text


def test_the_agent_learns_that_nobody_has_accepted_the_set_up() -> None:
    text = describe_for_agent(PLAN, is_accepted=False)
    assert "NOT installed: nobody has accepted the set-up yet" in text
    only_services = describe_for_agent(EnvironmentPlan(services=PLAN.services), is_accepted=False)
    assert "NOT installed" not in only_services
    assert "db on port 5432" in only_services


def test_a_command_is_shown_with_all_its_lines() -> None:
    plan = EnvironmentPlan(steps=(SetupStep("echo one\ncurl \x1b[8mevil\n" + "x" * 500, "a.yml"),))
    shown = [row.text for row in describe_plan(plan, ()) if row.about == "run"]
    assert (
        shown[0] == "echo one"
        and "evil" in shown[1]
        and "\x1b" not in shown[1]
        and shown[2].strip() == "x" * 500
    )
