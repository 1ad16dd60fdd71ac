"""One way to install dependencies that detection found, with everything it needs."""

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import field

from hutch.domain.dependency_plan import SetupStep
from hutch.system.lazy_dataclass import dataclass

WORKSPACE = "/workspace"
CACHE = f"{WORKSPACE}/.hutch-cache"
"""Downloads and tools of the build. It lies in the workspace, so that it becomes part of the layer, and so
that managers can link files from it instead of copying them."""
TOOLS = f"{CACHE}/tools"
TOOLS_PATH = f"{TOOLS}/bin"
MAX_PROJECTS = 20
MAX_INPUTS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Steps of one project or file, the files that decide their result, and their variables."""

    steps: tuple[SetupStep, ...] = ()
    inputs: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    session_variables: Mapping[str, str] = field(default_factory=dict)
    path: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def in_folder(folder: str, command: str) -> str:
    """A command that runs in a directory of the workspace, whatever directory the build is in."""
    return f"cd {shlex.quote(place(folder))} && {command}" if folder else command


def place(folder: str, name: str = "") -> str:
    """The path of a file or directory in the jail."""
    return "/".join(part for part in (WORKSPACE, folder, name) if part)


def python_tool(name: str, requirement: str = "") -> str:
    """Makes a program of the Python index available, unless the jail has it."""
    at = f"{TOOLS}/{name}"
    return (
        f"command -v {name} >/dev/null || {{ python3 -m venv {at} && {at}/bin/python -m pip install -q "
        f"{shlex.quote(requirement or name)} && mkdir -p {TOOLS_PATH} && "
        f"ln -sf {at}/bin/{name} {TOOLS_PATH}/{name}; }}"
    )


def node_tool(name: str, package: str) -> str:
    """Makes a program of the npm registry available in the version that the repository names."""
    at = f"{TOOLS}/node"
    return (
        f"npm install --silent --no-save --prefix {at} {shlex.quote(package)} && mkdir -p {TOOLS_PATH} && "
        f"ln -sf {at}/node_modules/.bin/{name} {TOOLS_PATH}/{name}"
    )


def unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))
