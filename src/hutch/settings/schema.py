"""All settings: names, types, defaults, and what a repository may set.

Values are read in `layered_loading.py`; `docs/settings.md` is generated from this module. Sizes
and times have their unit in the name.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field
from pydantic.fields import FieldInfo

from hutch.settings.code_search_section import Search
from hutch.settings.database_section import Database
from hutch.settings.environment_section import Environment
from hutch.settings.execution_and_question_sections import Execution, Questions
from hutch.settings.extension_section import Extensions
from hutch.settings.helper_agent_section import Helpers
from hutch.settings.jail_and_member_sections import Jail, Members
from hutch.settings.owner_policy_tables import Categories, PolicyTables
from hutch.settings.report_section import Reports
from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.secret_source_settings import Secrets
from hutch.settings.server_sections import Github, Oidc, Server, Sessions, Telemetry
from hutch.settings.task_section import Tasks
from hutch.settings.value_types import (
    GIB,
    MIB,
    Address,
    Author,
    Command,
    Count,
    ModelName,
    Persona,
    Prices,
    ReportPattern,
    Section,
    Size,
    Texts,
)
from hutch.settings.webhook_section import Webhooks


class Log(Section):
    """The log of Hutch itself: on standard error, and in `server.log` for a server."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The lowest level that is written."
    )
    format: Literal["auto", "json", "human"] = Field(
        "auto",
        description="The format on standard error; `auto` is `human` on a terminal, else `json`. "
        "`server.log` is always JSON.",
    )


class Models(Section):
    """The addresses of model providers, retries and timeouts."""

    anthropic_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="The address of Anthropic's API; Anthropic itself when not set."
    )
    openai_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="The address of OpenAI's API, with `/v1`; OpenAI itself when not set."
    )
    gemini_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="The address of Gemini's API; Google itself when not set."
    )
    ollama_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="The address of Ollama; `http://127.0.0.1:11434` when not set."
    )
    openai_compatible_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="The address for models named `openai-compatible:`, such as a vLLM or llama.cpp."
    )
    openai_protocol: Annotated[Literal["responses", "chat"], RepositoryAccess.NEVER] = Field(
        "responses",
        description="The API of `openai:` models. Choose `chat` if the server at `openai_base_url` "
        "does not support `responses`.",
    )
    attempts: Annotated[Count, RepositoryAccess.NEVER] = Field(
        6,
        ge=1,
        le=100,
        description="Maximum attempts of a request to a model that fails with a temporary error.",
    )
    max_retry_wait_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60,
        ge=0,
        le=3600,
        description="Maximum seconds to wait before a retry. When the provider asks for more, "
        "the request fails.",
    )
    idle_timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        300, ge=5, le=3600, description="Seconds without data after which a reply counts as failed."
    )
    prices: Annotated[Prices, RepositoryAccess.NEVER] = Field(
        (),
        description="Your own prices, as `MODEL=INPUT/CACHED/OUTPUT` in dollars per million tokens: "
        "`openai-compatible:qwen3=0.25/0.025/1.5`. They override those that Hutch knows.",
    )

    def base_urls(self) -> dict[str, str]:
        """The addresses that are set, by the names of their providers."""
        suffix = "_base_url"
        found = {name: getattr(self, name) for name in type(self).model_fields if name.endswith(suffix)}
        return {name.removesuffix(suffix).replace("_", "-"): url for name, url in found.items() if url}


class Tests(Section):
    """How a repository is tested."""

    command: Annotated[Command | None, RepositoryAccess.FREE] = Field(
        None, description="The command that runs the tests, inside the jail. Detected when not set."
    )
    report: Annotated[ReportPattern | None, RepositoryAccess.FREE] = Field(
        None,
        description="The report files that the command writes, relative to the repository: a path or a "
        "pattern such as `build/**/TEST-*.xml`. JUnit XML, TAP or the output of `go test -json`.",
    )
    auto: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False, description="Run the tests of a session after each change, while no agent works in it."
    )
    timeout_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        600,
        ge=1,
        le=600,
        description="Seconds that a test run may take, unless its caller sets another timeout.",
    )
    silence_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        30,
        ge=1,
        le=600,
        description="Seconds without any output after which a test run is stopped, unless its caller sets "
        "a timeout.",
    )
    memory_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(1024 * MIB),
        ge=64 * MIB,
        description="Memory of all processes of a test run together, within `jail.memory_bytes`.",
    )


class Delivery(Section):
    """How a change is delivered."""

    author: Annotated[Author | None, RepositoryAccess.NEVER] = Field(
        None,
        description="The author of commits, as `Name <address>`. When not set, the author in your "
        "git settings.",
    )


class Retention(Section):
    """How long the content of sessions is kept."""

    days: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None,
        ge=1,
        le=36_500,
        description="`hutch prune` erases the payloads of sessions that ended longer ago than this. "
        "Kept forever when not set.",
    )


class Workspace(Section):
    """How repositories become workspaces, and how much space these may take."""

    mode: Literal["auto", "copy", "reflink", "overlay"] = Field(
        "auto",
        description="How a repository becomes a workspace: `copy` copies it, `reflink` copies it but shares "
        "unchanged blocks, `overlay` mounts a layer for changes over a shared checkout. `auto` uses an "
        "overlay for large repositories, otherwise a copy.",
    )
    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="Where the changes of an open workspace are. `memory` needs an overlay and lets the "
        "kernel enforce the quota; changes are written to disk when the workspace is closed, and are lost in "
        "a crash.",
    )
    quota_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(5 * GIB),
        ge=MIB,
        description="Maximum size of a workspace: all files of a copy, or the changes in an overlay.",
    )
    quota_files: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        1_000_000, ge=100, le=100_000_000, description="Files and directories that a workspace may have."
    )
    snapshots: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        4000, ge=2, le=100_000, description="Maximum snapshots of a workspace; the oldest are removed first."
    )
    snapshots_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(5 * GIB),
        ge=MIB,
        description="Maximum size of the snapshots of a workspace; the oldest are removed first, "
        "the newest never.",
    )
    bases_bytes: Size = Field(ByteSize(20 * GIB), description="Maximum size of the cached repositories.")
    bases_days: Count = Field(
        30, ge=0, le=36_500, description="Days after which an unused cached repository is removed."
    )


class Settings(BaseModel):
    """All settings. `load` creates them; created directly, unset fields have their defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    persona: Annotated[Persona, RepositoryAccess.FREE] = Field(
        "engineer", description="The persona of a session's agent."
    )
    model: Annotated[ModelName | None, RepositoryAccess.NEVER] = Field(
        None, description="The language model, as `provider:name`."
    )
    ignore: Annotated[Texts, RepositoryAccess.FREE] = Field(
        (), description="Patterns of files that the agent ignores, as in `.gitignore`."
    )
    categories: Annotated[Categories, RepositoryAccess.NEVER] = Field(
        {},
        description="Names for groups of repositories, as patterns of their addresses, for policies: "
        '`payments = ["github.com/acme/pay-*"]` below `[categories]`.',
    )
    policy: Annotated[PolicyTables, RepositoryAccess.NEVER] = Field(
        (),
        description="Rules that an owner binds to roles, repositories and categories, each in a table "
        "`[[policy]]`. See [policies.md](policies.md).",
    )
    models: Models = Models()
    log: Log = Log()
    tests: Tests = Tests()
    delivery: Delivery = Delivery()
    retention: Retention = Retention()
    jail: Jail = Jail()
    members: Members = Members()
    workspace: Workspace = Workspace()
    environment: Environment = Environment()
    execution: Execution = Execution()
    questions: Questions = Questions()
    tasks: Tasks = Tasks()
    helpers: Helpers = Helpers()
    extensions: Extensions = Extensions()
    search: Search = Search()
    server: Server = Server()
    sessions: Sessions = Sessions()
    database: Database = Database()
    oidc: Oidc = Oidc()
    github: Github = Github()
    webhooks: Webhooks = Webhooks()
    telemetry: Telemetry = Telemetry()
    reports: Reports = Reports()
    secrets: Secrets = Secrets()


def _walk(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _walk(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


FIELDS: dict[str, FieldInfo] = dict(_walk(Settings))
SECTIONS = frozenset(name.rpartition(".")[0] for name in FIELDS) - {""}
RENAMED = {
    "github.longest_wait_s": "github.max_retry_wait_s",
    "jail.network_also": "jail.private_networks",
    "models.longest_wait_s": "models.max_retry_wait_s",
    "models.silence_s": "models.idle_timeout_s",
    "server.allowed_hosts": "server.repository_hosts",
    "server.network_allowed": "members.network",
    "sessions.keep_code_hours": "sessions.code_retention_hours",
    "sessions.keep_days": "sessions.file_retention_days",
}
"""Settings by a name that they no longer have; their use is an error that gives the new name."""


def environment_variable(name: str) -> str:
    """The environment variable of a setting: `jail.processes` is `HUTCH_JAIL__PROCESSES`."""
    return f"HUTCH_{name.replace('.', '__').upper()}"


def repository_access(name: str) -> RepositoryAccess:
    """The right of a repository to set a setting."""
    return next(
        (mark for mark in FIELDS[name].metadata if isinstance(mark, RepositoryAccess)), RepositoryAccess.NEVER
    )


def size_text(size_bytes: int) -> str:
    """A size as people write it, and exact: `2GiB`, or the plain number when no unit fits."""
    for unit, power in (("EiB", 6), ("PiB", 5), ("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return str(int(size_bytes))
