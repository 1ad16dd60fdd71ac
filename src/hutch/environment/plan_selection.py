"""The plan of an environment: as the settings say it, or detected from the files of the repository."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path

from hutch.domain.dependency_plan import EnvironmentPlan, Service, SetupStep
from hutch.environment.detection.bounded_repository_reader import RepositoryFiles
from hutch.environment.detection.plan_detection import detect
from hutch.environment.detection.requested_tool_versions import requested_tools
from hutch.environment.plan_description import SETTING
from hutch.system.lazy_dataclass import dataclass
from hutch.workspace.globs import glob_pattern

MANIFESTS = (
    *("pyproject.toml", "uv.lock", "poetry.lock", "requirements*.txt", "setup.cfg", "setup.py", "Pipfile*"),
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"),
    *("yarn.lock", ".npmrc", ".yarnrc*", "go.mod", "go.sum", "Cargo.toml", "Cargo.lock", "pom.xml"),
    *("Gemfile", "Gemfile.lock", ".python-version", ".nvmrc", ".tool-versions", "mise.toml"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentSettings:
    """The settings of environments for one repository."""

    setup: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    services: tuple[Service, ...] = ()
    is_trusted: bool = False  # the set-up comes from the user or owner, not from the repository
    auto: bool = False
    registries: tuple[str, ...] = ()
    max_bytes: int
    total_bytes: int
    retention_days: float
    timeout_s: float
    share_between_owners: bool = False
    private_networks: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()


def make_plan(tree: Path, settings: EnvironmentSettings) -> EnvironmentPlan:
    """The plan for a directory with the files of a repository. Nothing in it is run."""
    if not settings.setup:
        plan = detect(tree)
    else:
        steps = tuple(SetupStep(command, SETTING) for command in settings.setup)
        with RepositoryFiles.at(tree) as files:
            tools = requested_tools(files)
        plan = EnvironmentPlan(steps=steps, is_configured=settings.is_trusted, tools=tools)
    inputs = _matching(tree, settings.inputs or (() if plan.inputs else MANIFESTS))
    return replace(
        plan,
        inputs=tuple(sorted({*plan.inputs, *inputs})),
        outputs=settings.outputs,
        variables={**plan.variables, **settings.variables},
        session_variables={**plan.session_variables, **settings.variables},
        services=settings.services or plan.services,
    )


def _matching(tree: Path, patterns: Sequence[str]) -> list[str]:
    expressions = [glob_pattern(pattern) for pattern in patterns]
    if not expressions:
        return []
    with RepositoryFiles.at(tree) as files:
        return [name for name in files.names if any(each.fullmatch(name) for each in expressions)]
