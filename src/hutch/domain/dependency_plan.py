"""The environment of a repository: how its dependencies are installed, and what decides their content."""

from collections.abc import Mapping
from dataclasses import field

from hutch.system.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class SetupStep:
    """One command that installs dependencies, and the reason why it is run."""

    command: str
    source: str
    """Where it comes from: `uv.lock`, `.devcontainer/devcontainer.json`, `environment.setup`."""
    manager: str = ""
    """The package manager, as `environment.registries` names it: `uv`, `npm`; empty if it is not known."""
    is_optional: bool = False
    """True if the build goes on when it fails: written for another tool, so it may need what a jail lacks."""


@dataclass(frozen=True, slots=True)
class Service:
    """A command that must be up before the tests."""

    name: str
    command: str
    port: int | None = None
    probe: str = ""
    """A command that succeeds as soon as the service is ready; empty waits for the port."""


@dataclass(frozen=True, slots=True)
class RequestedTool:
    """A program that a repository asks for, in a version."""

    source: str  # `mise.toml`, `.tool-versions`
    name: str
    version: str


@dataclass(frozen=True, slots=True)
class EnvironmentPlan:
    """All that decides how the environment of a repository is built."""

    steps: tuple[SetupStep, ...] = ()
    inputs: tuple[str, ...] = ()
    """Paths of the files that the build sees, sorted: no other file of the repository is there."""
    outputs: tuple[str, ...] = ()
    """Patterns of paths that the build makes, beside the directories that package managers use."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Of the build; they decide its content."""
    session_variables: Mapping[str, str] = field(default_factory=dict)
    """Of every command in a session that uses the environment. `path` is not among them."""
    path: tuple[str, ...] = ()
    """Directories in the jail that go before PATH, in the build and in sessions."""
    hosts: tuple[str, ...] = ()
    """Hosts that the lock files name. A repository wrote them: they are shown, and allowed by an owner."""
    services: tuple[Service, ...] = ()
    tools: tuple[RequestedTool, ...] = ()
    is_configured: bool = False
    """True if an owner wrote it (`environment.setup`); a detected plan is accepted first."""
    notes: tuple[str, ...] = ()
    """Findings that are not used, with the reason."""

    @property
    def managers(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(step.manager for step in self.steps if step.manager))
