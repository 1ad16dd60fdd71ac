"""Everything that can be set: names, kinds, defaults, and what a repository may do.

Values are read in `settings`; `docs/settings.md` is generated from this page. Sizes
and times carry their unit in the name.
"""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BaseModel, ByteSize, ConfigDict, Field
from pydantic.fields import FieldInfo

from hutch.settings.repository import RepositoryAccess
from hutch.settings.server_sections import Github, Oidc, Server, Sessions, Telemetry
from hutch.settings.value_types import (
    GIB,
    MIB,
    Address,
    Author,
    Command,
    Count,
    Hosts,
    ModelName,
    Networks,
    Persona,
    Prices,
    Section,
    Size,
    Texts,
)


class Log(Section):
    """What Hutch tells about its own work, on standard error."""

    level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="The least important lines that are still written."
    )
    format: Literal["auto", "json", "human"] = Field(
        "auto", description="JSON lines, or lines for people; `auto` is for people when it is a terminal."
    )


class Models(Section):
    """Where models are asked, and with how much patience."""

    anthropic_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="Where Anthropic's models are asked; Anthropic itself when not set."
    )
    openai_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="Where OpenAI's models are asked, with `/v1`; OpenAI itself when not set."
    )
    gemini_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="Where Gemini is asked; Google itself when not set."
    )
    ollama_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="Where Ollama runs; `http://127.0.0.1:11434` when not set."
    )
    openai_compatible_base_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None, description="Where models named `openai-compatible:` are asked, such as a vLLM or llama.cpp."
    )
    openai_protocol: Annotated[Literal["responses", "chat"], RepositoryAccess.NEVER] = Field(
        "responses", description="The protocol for `openai:` models; servers that imitate OpenAI know `chat`."
    )
    attempts: Annotated[Count, RepositoryAccess.NEVER] = Field(
        6, ge=1, le=100, description="How often a model is asked when it fails in a way that may pass."
    )
    longest_wait_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60, ge=0, le=3600, description="Seconds to wait for the next try; who asks for more is given up."
    )
    silence_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        300, ge=5, le=3600, description="Seconds without a sign after which a reply counts as broken."
    )
    prices: Annotated[Prices, RepositoryAccess.NEVER] = Field(
        (),
        description="Dollars for a million tokens in, from a cache, and out, before the list prices of "
        "Hutch: `openai-compatible:qwen3=0.25/0.025/1.5`.",
    )


class Tests(Section):
    """How a repository is tested."""

    command: Annotated[Command | None, RepositoryAccess.FREE] = Field(
        None, description="The command that runs the tests, inside the jail. Found by looking when not set."
    )
    timeout_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        30,
        ge=1,
        le=600,
        description="Seconds that a run of the tests may take, unless the agent asks for other.",
    )


class Delivery(Section):
    """How a change is handed over."""

    author: Annotated[Author | None, RepositoryAccess.NEVER] = Field(
        None,
        description="Who commits are by, as `Name <address>`. When not set, whom your own git settings name.",
    )


class Retention(Section):
    """How long what was said and done is kept."""

    days: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None,
        ge=1,
        le=36_500,
        description="`hutch prune` erases the payloads of sessions that ended longer ago than this. "
        "Kept for good when not set.",
    )


class Jail(Section):
    """What commands inside a session's jail may use."""

    processes: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        512, ge=16, le=1_000_000, description="Processes and threads at one time."
    )
    memory_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(2 * GIB), ge=64 * MIB, description="Memory of all processes together."
    )
    open_files: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        4096, ge=64, le=1_000_000, description="Open files of one process."
    )
    tmp_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(GIB), ge=MIB, description="Size of `/tmp`."
    )
    shm_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(64 * MIB), ge=MIB, description="Size of `/dev/shm`."
    )
    home_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(512 * MIB), ge=MIB, description="Size of the home directory."
    )
    workspace_growth_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(2 * GIB), ge=MIB, description="What a session may add to its workspace."
    )
    command_timeout_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        30, ge=1, le=600, description="Seconds that a command may take unless it asks for other."
    )
    output_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(MIB), ge=4096, description="Output of one command that is kept; the middle is cut out."
    )
    network: Annotated[Hosts, RepositoryAccess.TIGHTEN] = Field(
        (),
        description="Hosts that the jail may reach: `docs.example.com`, or `*.example.org` for all under it.",
    )
    network_also: Annotated[Networks, RepositoryAccess.NEVER] = Field(
        (),
        description="Private networks, or this machine's own, that allowed hosts may lead to: `10.1.2.0/24`.",
    )


class Workspace(Section):
    """How repositories are made ready for a session, and how much one may take."""

    mode: Literal["auto", "copy", "reflink", "overlay"] = Field(
        "auto",
        description="How a repository becomes a workspace: a copy, one that shares blocks, or layers over a "
        "shared base. `auto` takes layers for what is large and a copy else.",
    )
    storage: Literal["disk", "memory"] = Field(
        "disk",
        description="Where changes are kept. `memory` makes the quota a hard one and needs layers; what is "
        "there is written to disk when the workspace is closed, and lost in a crash.",
    )
    quota_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(5 * GIB), ge=MIB, description="What a workspace may add to the disk."
    )
    quota_files: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        1_000_000, ge=100, le=100_000_000, description="Files and directories that a workspace may have."
    )
    snapshots: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        1000, ge=2, le=100_000, description="Snapshots that are kept of a workspace; the oldest go first."
    )
    snapshots_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(5 * GIB),
        ge=MIB,
        description="What the snapshots of a workspace may take; the oldest go first, the newest never.",
    )
    bases_bytes: Size = Field(
        ByteSize(20 * GIB), description="What is kept of repositories for the next session, at most."
    )
    bases_days: Count = Field(
        30, ge=0, le=36_500, description="Days after which what nobody used of it is removed."
    )


class Settings(BaseModel):
    """All settings. Made by `load`; made by hand it holds what it is given, and defaults."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    persona: Annotated[Persona, RepositoryAccess.FREE] = Field(
        "engineer", description="Who works: the persona of a session's agent."
    )
    model: Annotated[ModelName | None, RepositoryAccess.NEVER] = Field(
        None, description="The language model that thinks, as `provider:name`."
    )
    ignore: Annotated[Texts, RepositoryAccess.FREE] = Field(
        (), description="Patterns of files that the agent does not look at, as in `.gitignore`."
    )
    models: Models = Models()
    log: Log = Log()
    tests: Tests = Tests()
    delivery: Delivery = Delivery()
    retention: Retention = Retention()
    jail: Jail = Jail()
    workspace: Workspace = Workspace()
    server: Server = Server()
    sessions: Sessions = Sessions()
    oidc: Oidc = Oidc()
    github: Github = Github()
    telemetry: Telemetry = Telemetry()


def _walk(model: type[BaseModel], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in model.model_fields.items():
        if isinstance(field.annotation, type) and issubclass(field.annotation, Section):
            yield from _walk(field.annotation, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", field


FIELDS: dict[str, FieldInfo] = dict(_walk(Settings))
SECTIONS = frozenset(name.rpartition(".")[0] for name in FIELDS) - {""}


def environment_variable(name: str) -> str:
    """The environment variable of a setting: `jail.processes` is `HUTCH_JAIL__PROCESSES`."""
    return f"HUTCH_{name.replace('.', '__').upper()}"


def repository_access(name: str) -> RepositoryAccess:
    """What a repository may do with a setting."""
    return next(
        (mark for mark in FIELDS[name].metadata if isinstance(mark, RepositoryAccess)), RepositoryAccess.NEVER
    )


def size_text(size_bytes: int) -> str:
    """A size as people write it, and exact: `2GiB`, or the plain number when no unit fits."""
    for unit, power in (("EiB", 6), ("PiB", 5), ("TiB", 4), ("GiB", 3), ("MiB", 2), ("KiB", 1)):
        if size_bytes and size_bytes % 1024**power == 0:
            return f"{size_bytes // 1024**power}{unit}"
    return str(int(size_bytes))
