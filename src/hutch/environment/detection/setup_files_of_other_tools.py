"""Set-up that a repository keeps for other tools: dev containers, OpenHands, Copilot.

Their commands were written for another machine, often one where they are root. They are
optional: what fails is in the log, and the build goes on. Commands that cannot work in a
jail, or that lock files cover already, are noted instead.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from hutch.domain.dependency_plan import SetupStep
from hutch.domain.jail_variable_and_secret_check import refusal_of_variable
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles, join
from hutch.environment.detection.detected_install_steps import WORKSPACE, Finding, unique
from hutch.environment.detection.manifest_parsing import (
    list_of,
    parse_json_with_comments,
    parse_yaml,
    table_of,
)

DEVCONTAINERS = (".devcontainer/devcontainer.json", ".devcontainer.json")
LIFECYCLE = ("onCreateCommand", "updateContentCommand", "postCreateCommand")
IGNORED_KEYS = ("image", "build", "dockerFile", "dockerComposeFile", "features", "runArgs", "mounts")
OPENHANDS = ".openhands/setup.sh"
COPILOT = (".github/workflows/copilot-setup-steps.yml", ".github/workflows/copilot-setup-steps.yaml")
MAX_COMMANDS = 30
MAX_COMMAND_CHARS = 8000
MAX_VARIABLES = 50
PRIVILEGED = re.compile(r"(^|[\s;&|(])(sudo|apt|apt-get|apk|dnf|yum|brew|docker|systemctl)\s")
INSTALLS = re.compile(
    r"\s*(npm (ci|install|i)|yarn( install)?|pnpm (i|install)|uv sync|poetry install|go mod download|"
    r"cargo fetch|bundle( install)?|(python3? -m )?pip3? install)"
    r"(\s+(--?[\w-]+(=\S+)?|-r \S+|\.))*\s*"
)
MANAGER = re.compile(r"\s*(?:python3? -m )?(\w+)")
MANAGERS = {"npm": "node", "yarn": "node", "pnpm": "node", "bundle": "bundler", "pip3": "pip"}
PYTHON = frozenset({"uv", "poetry", "pip"})


def find(files: RepositoryFiles, managers: tuple[str, ...]) -> Iterator[Finding]:
    """The set-up of other tools; `managers` are those whose lock files are used already."""
    for path in DEVCONTAINERS:
        if path in files:
            yield _devcontainer(files, path, managers)
    if OPENHANDS in files:
        step = SetupStep(f"bash {OPENHANDS}", OPENHANDS, is_optional=True)
        yield Finding(steps=(step,), inputs=(OPENHANDS, *_scripts(files, files.text(OPENHANDS))))
    for path in COPILOT:
        if path in files:
            yield _copilot(files, path, managers)


def _devcontainer(files: RepositoryFiles, path: str, managers: tuple[str, ...]) -> Finding:
    document = parse_json_with_comments(files.text(path))
    if not document:
        return Finding(notes=(f"{path}: not used, since it is not JSON",))
    notes = [
        f"{path}: '{key}' is not used: a jail has the system of its host"
        for key in IGNORED_KEYS
        if key in document
    ]
    commands = [(key, command) for key in LIFECYCLE for command in _lifecycle(document.get(key))]
    steps, inputs = [], [path]
    for key, command in commands[:MAX_COMMANDS]:
        if reason := _reason_against(command, managers):
            notes.append(f"{path}: {key} '{_short(command)}' is not run: {reason}")
        else:
            steps.append(SetupStep(command, path, is_optional=True))
            inputs += _scripts(files, command)
    variables = _variables(table_of(document, "containerEnv"), path, notes)
    used = bool(steps or variables)
    return Finding(
        steps=tuple(steps),
        inputs=unique(inputs) if used else (),
        variables=variables,
        session_variables=variables,
        notes=tuple(notes),
    )


def _lifecycle(value: Any) -> Iterator[str]:
    """The commands of a key: a shell text, a list of arguments, or a table of either."""
    if isinstance(value, str) and value.strip():
        yield value
    elif isinstance(value, list) and value and all(isinstance(word, str) for word in value):
        yield shlex.join(value)
    elif isinstance(value, dict):
        for each in list(value.values())[:MAX_COMMANDS]:
            if not isinstance(each, dict):
                yield from _lifecycle(each)


def _variables(found: Mapping[str, Any], path: str, notes: list[str]) -> dict[str, str]:
    used: dict[str, str] = {}
    for name, value in list(found.items())[:MAX_VARIABLES]:
        if not isinstance(value, str):
            continue
        value = re.sub(r"\$\{(containerWorkspaceFolder|localWorkspaceFolder)\}", WORKSPACE, value)
        if "${" in value:
            notes.append(f"{path}: variable {name[:100]!r} is not used: it takes a value of another machine")
        elif reason := refusal_of_variable(name, value):
            notes.append(f"{path}: {reason}")
        else:
            used[name] = value
    return used


def _copilot(files: RepositoryFiles, path: str, managers: tuple[str, ...]) -> Finding:
    job = table_of(parse_yaml(files.text(path)), "jobs", "copilot-setup-steps")
    steps, notes, inputs = [], [], [path]
    for each in list_of(job, "steps")[:MAX_COMMANDS]:
        title = _short(str(each.get("name") or each.get("uses") or each.get("run") or ""))
        command = each.get("run")
        if not isinstance(command, str):
            notes.append(f"{path}: step '{title}' is not used: only run steps are")
        elif "${{" in command or each.get("if") or each.get("shell") not in (None, "bash", "sh"):
            notes.append(f"{path}: step '{title}' is not used: it needs expressions or a shell of a workflow")
        elif reason := _reason_against(command, managers):
            notes.append(f"{path}: step '{title}' is not run: {reason}")
        else:
            at = each.get("working-directory")
            folder = join("", at) if isinstance(at, str) else ""
            where = f"cd {shlex.quote(folder)} && " if folder else ""
            steps.append(SetupStep(where + command.strip(), path, is_optional=True))
            inputs += _scripts(files, command)
    return Finding(steps=tuple(steps), inputs=unique(inputs) if steps else (), notes=tuple(notes))


def _reason_against(command: str, managers: tuple[str, ...]) -> str:
    if len(command) > MAX_COMMAND_CHARS or "\0" in command:
        return "it is too long"
    if PRIVILEGED.search(command):
        return "a jail cannot install packages of the system; install them on the host"
    lines = [line for line in re.split(r"\n|&&|;", command) if line.strip()]
    if managers and lines and all(INSTALLS.fullmatch(line) and _is_covered(line, managers) for line in lines):
        return "the lock file is used instead"
    return ""


def _is_covered(line: str, managers: tuple[str, ...]) -> bool:
    found = MANAGER.match(line)
    name = found[1] if found else ""
    if name == "pip3" or name in PYTHON:
        return bool(PYTHON & set(managers))
    if MANAGERS.get(name) == "node":
        return bool({"npm", "yarn", "pnpm"} & set(managers))
    return MANAGERS.get(name, name) in managers


def _scripts(files: RepositoryFiles, command: str) -> list[str]:
    """The files of the repository that a command names."""
    words = re.split(r"[\s;&|()'\"=]+", command[:MAX_COMMAND_CHARS])
    return [path for word in words if word and (path := join("", word)) and path in files]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= 80 else f"{line[:79]}…"
