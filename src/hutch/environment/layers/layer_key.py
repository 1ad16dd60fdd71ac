"""The key of a layer: everything that decides its content, and whose it is.

A build sees the input files and no other file of the repository. So two commits with the same
key get the same layer, and a commit with another input cannot change the layer of the first.
The scope is part of the key: repositories and owners do not share layers, even if all else is
equal, unless an owner allows it.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan
from hutch.environment.layers.build_input_files import InputFile
from hutch.system.lazy_dataclass import dataclass

FORMAT = 2  # changes with the way that layers are built or stored
TOOLS = (
    *("python3", "uv", "pip", "pip3", "poetry", "node", "npm", "pnpm", "yarn", "corepack", "go", "cargo"),
    *("rustc", "java", "mvn", "gradle", "ruby", "bundle", "gcc", "cc", "c++", "make", "sh"),
)
DIRECTORIES = ("/usr/local/bin", "/usr/bin", "/bin")
OS_RELEASE = Path("/etc/os-release")


@dataclass(frozen=True, slots=True)
class Scope:
    """The repository that a layer belongs to, and the user whose sessions may use it."""

    owner: str  # empty: every owner of a session of this repository
    repository: str


def layer_key(
    scope: Scope, plan: EnvironmentPlan, inputs: Iterable[InputFile], machine: Sequence[str]
) -> str:
    """The key of the layer that this plan builds from these files on this machine."""
    content = {
        "format": FORMAT,
        "owner": scope.owner,
        "repository": scope.repository,
        "machine": list(machine),
        "steps": [[step.command, step.is_optional] for step in plan.steps],
        "variables": sorted(plan.variables.items()),
        "session_variables": sorted(plan.session_variables.items()),
        "path": list(plan.path),
        "outputs": list(plan.outputs),
        "inputs": [
            [file.path, file.mode, hashlib.sha256(file.content).hexdigest()]
            for file in sorted(inputs, key=lambda file: file.path)
        ],
    }
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def plan_digest(plan: EnvironmentPlan) -> str:
    """The content of a plan that a person accepts: the commands, their variables and outputs."""
    content = [
        [[step.command, step.source, step.is_optional] for step in plan.steps],
        sorted(plan.variables.items()),
        *([list(plan.outputs)] if plan.outputs else []),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def describe_machine(toolchains: Sequence[str] = ()) -> list[str]:
    """The platform and the programs that builds use, with what changes when one is replaced.

    No program is run: its file tells as much as its version, and a session must be ready in milliseconds.
    """
    found = [platform.machine(), _os_release()]
    directories = (*(f"{path}/bin" for path in toolchains), *DIRECTORIES)
    for tool in TOOLS:
        for directory in directories:
            try:
                path = Path(directory, tool).resolve(strict=True)
                about = path.stat()
            except OSError:
                continue
            found.append(f"{tool} {path} {about.st_size} {about.st_mtime_ns}")
            break
    return found


def _os_release() -> str:
    try:
        return OS_RELEASE.read_text(errors="replace")[:4096]
    except OSError:
        return ""
