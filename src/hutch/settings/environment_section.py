"""Settings of environments: how dependencies of repositories are installed."""

import re
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, BeforeValidator, ByteSize, ConfigDict, Field, ValidationError

from hutch.domain.jail_variable_and_secret_check import refusal_of_variable
from hutch.domain.validation_messages import describe_with_location
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import (
    GIB,
    MIB,
    Command,
    Count,
    Section,
    Size,
    Texts,
    parse_host_pattern,
    split_list,
)

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}=[^\0]{0,8192}", re.ASCII | re.DOTALL)
PRESETS = ("uv", "pip", "poetry", "npm", "pnpm", "yarn", "go", "cargo", "maven", "bundler")
EXAMPLE = 'services = [{ name = "db", command = "postgres -D data", port = 5432 }]'


class ServiceTable(BaseModel):
    """A command that must be up before the tests."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]
    command: Command
    port: Annotated[int, Field(ge=1, le=65535)] | None = None
    probe: Command | None = None


def _variables(value: object) -> object:
    """A table, or a list of NAME=value."""
    if isinstance(value, dict):
        return tuple(f"{name}={text}" for name, text in value.items())
    return split_list(value)


def _variable(value: str) -> str:
    if not VARIABLE.fullmatch(value):
        raise ValueError("It should be a table of variables, or a list of NAME=value")
    if reason := refusal_of_variable(*value.split("=", 1)):
        raise ValueError(reason.rstrip("."))
    return value


def _registry(value: str) -> str:
    return value if value in PRESETS else parse_host_pattern(value)


def _services(value: object) -> object:
    if not isinstance(value, list | tuple):
        raise ValueError(f"It should be a list of tables: {EXAMPLE}")
    return tuple(_service(number, table) for number, table in enumerate(value, 1))


def _service(number: int, table: Any) -> ServiceTable:
    if isinstance(table, ServiceTable):
        return table
    try:
        return ServiceTable.model_validate(table)
    except ValidationError as error:
        problem = describe_with_location(error.errors(include_url=False)[0])
        raise ValueError(f"In service {number}: {problem}") from None


Commands = Annotated[tuple[Command, ...], BeforeValidator(split_list), Field(max_length=100)]
Variables = Annotated[
    tuple[Annotated[str, AfterValidator(_variable)], ...], BeforeValidator(_variables), Field(max_length=100)
]
Registries = Annotated[tuple[Annotated[str, AfterValidator(_registry)], ...], BeforeValidator(split_list)]
Services = Annotated[tuple[ServiceTable, ...], BeforeValidator(_services), Field(max_length=20)]


class Environment(Section):
    """How the dependencies of a repository are installed for its sessions.

    A repository may say what is installed. Where it may be downloaded from, and how much, is the owner's.
    """

    setup: Annotated[Commands, RepositoryAccess.FREE] = Field(
        (),
        description="The commands that install the dependencies, in a jail that sees only `inputs`. Detected "
        "from lock files when not set.",
    )
    inputs: Annotated[Texts, RepositoryAccess.FREE] = Field(
        (),
        description="The files that `setup` needs, as patterns: `requirements/*.txt`. Dependencies are "
        "installed again when one of them changes. When not set, the known manifests and lock files.",
    )
    outputs: Annotated[Texts, RepositoryAccess.FREE] = Field(
        (),
        description="The paths that `setup` makes, as patterns: `assets/generated`. The directories of "
        "package managers, such as `.venv`, `node_modules` and `target`, need not be named. Everything else "
        "that a set-up writes is left out.",
    )
    variables: Annotated[Variables, RepositoryAccess.FREE] = Field(
        (),
        description="Variables of the set-up, and of every command in a session: a table, or `NAME=value`.",
    )
    services: Annotated[Services, RepositoryAccess.FREE] = Field(
        (),
        description="Programs that must be up before the tests, each with a `name`, a `command`, and a "
        "`port` or a `probe`, a command that succeeds when the service is ready.",
    )
    auto: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False,
        description="Install dependencies without asking. Otherwise the commands are shown before they first "
        "run, and a person accepts them.",
    )
    registries: Annotated[Registries, RepositoryAccess.NEVER] = Field(
        PRESETS,
        description="Where a set-up may download from: names of package managers, which stand for the "
        "registries that they are configured for on this machine, and hosts. A session itself does not reach "
        "them.",
    )
    max_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(5 * GIB), ge=MIB, description="Maximum size of the installed dependencies of a repository."
    )
    total_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(50 * GIB),
        description="Maximum size of all installed dependencies. Those that were not used for longest are "
        "removed first; those of existing workspaces are kept.",
    )
    retention_days: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30, ge=0, le=36_500, description="Days after which unused dependencies are removed."
    )
    timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        600,
        ge=1,
        le=7200,
        description="Seconds that a set-up may take in all; each of its commands may take 600 at most.",
    )
    share_between_owners: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False,
        description="Let all users share the installed dependencies of a repository. Otherwise each has "
        "their own, so that none can change those of another.",
    )
