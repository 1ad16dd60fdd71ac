"""Set-up for dev containers, OpenHands and Copilot, and versions that a repository asks for."""

import json
from pathlib import Path

import pytest

from hutch.environment.detection.plan_detection import detect

DEVCONTAINER = ".devcontainer/devcontainer.json"
COPILOT = ".github/workflows/copilot-setup-steps.yml"


def put(root: Path, name: str, text: str) -> None:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("make deps", ["make deps"]),
        (["make", "my deps"], ["make 'my deps'"]),
        ({"a": "make a", "b": ["make", "b"]}, ["make a", "make b"]),
        ({"a": {"b": "make b"}}, []),
        (7, []),
        ([["make"]], []),
    ],
)
def test_a_dev_container_has_three_shapes_of_commands(
    tmp_path: Path, value: object, expected: list[str]
) -> None:
    put(tmp_path, DEVCONTAINER, json.dumps({"postCreateCommand": value}))
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == expected
    assert all(step.source == DEVCONTAINER and step.is_optional for step in plan.steps)


def test_comments_and_trailing_commas_are_read(tmp_path: Path) -> None:
    text = """// a comment
    { /* "postCreateCommand": "no" */
      "postCreateCommand": "echo 'http://x // y' , ]", // "no"
      "containerEnv": {"A": "1", "DIR": "${containerWorkspaceFolder}/x",},
    }"""
    put(tmp_path, DEVCONTAINER, text)
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == ["echo 'http://x // y' , ]"]
    assert plan.session_variables == {"A": "1", "DIR": "/workspace/x"}


def test_variables_of_the_host_and_reserved_names_are_not_taken(tmp_path: Path) -> None:
    found = {
        "TOKEN": "${localEnv:TOKEN}",
        "PATH": "/x",
        "HUTCH_HOME": "/x",
        "BASH_ENV": "/x",
        "1A": "x",
        "OK": "y",
    }
    put(tmp_path, DEVCONTAINER, json.dumps({"containerEnv": found, "image": "x"}))
    plan = detect(tmp_path)
    assert plan.variables == {"OK": "y"}
    assert len(plan.notes) == 6


def test_scripts_that_a_command_names_are_inputs(tmp_path: Path) -> None:
    put(tmp_path, DEVCONTAINER, json.dumps({"postCreateCommand": "bash ./tools/setup.sh ../../etc/passwd"}))
    put(tmp_path, "tools/setup.sh", "make deps")
    assert detect(tmp_path).inputs == (DEVCONTAINER, "tools/setup.sh")


def test_commands_that_a_lock_file_covers_or_a_jail_refuses_are_noted(tmp_path: Path) -> None:
    put(tmp_path, "package.json", '{"dependencies": {"x": "1"}}')
    put(tmp_path, "package-lock.json", "{}")
    commands = {"a": "npm install", "b": "sudo apt-get install -y jq", "c": "npm ci && npm run generate"}
    put(tmp_path, DEVCONTAINER, json.dumps({"postCreateCommand": commands}))
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == [
        "(if npm ci --dry-run >/dev/null; then npm ci; else npm install --no-save; fi)",
        "npm ci && npm run generate",
    ]
    assert any("the lock file is used instead" in note for note in plan.notes)
    assert any("cannot install packages of the system" in note for note in plan.notes)


def test_a_script_for_openhands_is_run(tmp_path: Path) -> None:
    put(tmp_path, ".openhands/setup.sh", "./scripts/deps.sh")
    put(tmp_path, "scripts/deps.sh", "")
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == ["bash .openhands/setup.sh"]
    assert plan.inputs == (".openhands/setup.sh", "scripts/deps.sh")


def test_only_run_steps_of_a_copilot_workflow_are_used(tmp_path: Path) -> None:
    text = """
jobs:
  copilot-setup-steps:
    steps:
      - uses: actions/checkout@v5
      - name: Generate
        run: make generate
        working-directory: app
      - name: Secret
        run: echo ${{ secrets.TOKEN }}
      - run: Get-Item x
        shell: pwsh
"""
    put(tmp_path, COPILOT, text)
    plan = detect(tmp_path)
    assert [step.command for step in plan.steps] == ["cd app && make generate"]
    assert len(plan.notes) == 3
    assert "actions/checkout@v5' is not used: only run steps are" in plan.notes[0]


def test_tools_of_version_managers_are_found(tmp_path: Path) -> None:
    put(tmp_path, "mise.toml", '[tools]\nnode = "22"\npython = "3.11"\ngo = {version = "1.27.3"}\n')
    put(tmp_path, ".tool-versions", "ruby 3.2.1\nnodejs 20.1.0\n# comment\n")
    put(tmp_path, ".python-version", "3.13\n")
    assert [(tool.source, tool.name, tool.version) for tool in detect(tmp_path).tools] == [
        ("mise.toml", "node", "22"),
        ("mise.toml", "python", "3.11"),
        ("mise.toml", "go", "1.27.3"),
        (".tool-versions", "ruby", "3.2.1"),
        (".tool-versions", "node", "20.1.0"),
        (".python-version", "python", "3.13"),
    ]
