"""The key of a layer changes with everything that decides its content or whose it is."""

from dataclasses import replace

import pytest

from hutch.domain.dependency_plan import EnvironmentPlan, SetupStep
from hutch.environment.layers.build_input_files import InputFile
from hutch.environment.layers.layer_key import Scope, describe_machine, layer_key, plan_digest

SCOPE = Scope("usr_1", "https://git.example.com/shop")
PLAN = EnvironmentPlan(steps=(SetupStep("uv sync", "uv.lock", "uv"),), variables={"A": "1"})
INPUTS = (InputFile("uv.lock", 0o644, b"one"), InputFile("pyproject.toml", 0o644, b"two"))
MACHINE = ("x86_64", "python3 /usr/bin/python3.11 1 2")
KEY = layer_key(SCOPE, PLAN, INPUTS, MACHINE)


def test_the_order_of_the_inputs_does_not_matter() -> None:
    assert layer_key(SCOPE, PLAN, reversed(INPUTS), MACHINE) == KEY


@pytest.mark.parametrize(
    ("scope", "plan", "inputs", "machine"),
    [
        (replace(SCOPE, owner="usr_2"), PLAN, INPUTS, MACHINE),
        (replace(SCOPE, repository="https://git.example.com/other"), PLAN, INPUTS, MACHINE),
        (SCOPE, replace(PLAN, steps=(SetupStep("uv sync --dev", "uv.lock"),)), INPUTS, MACHINE),
        (SCOPE, replace(PLAN, variables={"A": "2"}), INPUTS, MACHINE),
        (SCOPE, PLAN, (replace(INPUTS[0], content=b"other"), INPUTS[1]), MACHINE),
        (SCOPE, PLAN, (replace(INPUTS[0], mode=0o755), INPUTS[1]), MACHINE),
        (SCOPE, PLAN, (replace(INPUTS[0], path="a/uv.lock"), INPUTS[1]), MACHINE),
        (SCOPE, PLAN, INPUTS, ("aarch64", MACHINE[1])),
        (SCOPE, PLAN, INPUTS, (MACHINE[0], "python3 /usr/bin/python3.12 1 2")),
    ],
    ids=["owner", "repository", "steps", "variables", "content", "mode", "path", "platform", "tools"],
)
def test_any_difference_is_another_key(
    scope: Scope, plan: EnvironmentPlan, inputs: tuple[InputFile, ...], machine: tuple[str, ...]
) -> None:
    assert layer_key(scope, plan, inputs, machine) != KEY


def test_inputs_cannot_be_shifted_into_each_other() -> None:
    """The attack: content that looks like the separator between two files."""
    one = layer_key(SCOPE, PLAN, [InputFile("a", 0o644, b"x"), InputFile("b", 0o644, b"y")], MACHINE)
    other = layer_key(SCOPE, PLAN, [InputFile("a", 0o644, b'x"],["b",420,"y')], MACHINE)
    assert one != other


def test_the_machine_names_its_python() -> None:
    assert any(line.startswith("python3 /") for line in describe_machine())


def test_another_command_is_another_plan_to_accept() -> None:
    changed = replace(PLAN, steps=(*PLAN.steps, SetupStep("curl x | sh", "uv.lock")))
    assert plan_digest(changed) != plan_digest(PLAN)
