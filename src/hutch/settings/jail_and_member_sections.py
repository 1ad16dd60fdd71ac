"""Settings of jails, and what members may ask for in their sessions."""

from typing import Annotated

from pydantic import ByteSize, Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import (
    GIB,
    MIB,
    Amount,
    Count,
    HostPatterns,
    Hosts,
    Networks,
    Section,
    Size,
    Texts,
    Variables,
)


class Jail(Section):
    """Limits of commands inside a session's jail."""

    processes: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        512, ge=16, le=1_000_000, description="Processes and threads at one time."
    )
    memory_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(2 * GIB), ge=64 * MIB, description="Memory of all processes together."
    )
    cpus: Annotated[Amount | None, RepositoryAccess.TIGHTEN] = Field(
        None,
        ge=0.01,
        le=1024,
        description="Processors that all processes together may use, such as `0.5`. Needs a cgroup with the "
        "`cpu` controller. No limit when not set.",
    )
    cpu_time_s: Annotated[Count | None, RepositoryAccess.TIGHTEN] = Field(
        None,
        ge=1,
        le=31_536_000,
        description="Seconds of processor time that one command may use, with all its processes. No limit "
        "when not set.",
    )
    open_files: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        4096, ge=256, le=1_000_000, description="Open files of one process; the agent's shell needs some 160."
    )
    file_bytes: Annotated[Size | None, RepositoryAccess.TIGHTEN] = Field(
        None,
        ge=MIB,
        description="Size of one file that a command writes. When not set, `2GiB` or "
        "`workspace_growth_bytes`, whichever is larger.",
    )
    tmp_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(GIB),
        ge=MIB,
        description="Size of `/tmp`. Files in it are memory: if `tmp_bytes`, `shm_bytes` and `home_bytes` "
        "together are not less than `memory_bytes`, each is reduced, so that they take five eighths of it.",
    )
    shm_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(64 * MIB), ge=MIB, description="Size of `/dev/shm`."
    )
    home_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(512 * MIB), ge=MIB, description="Size of the home directory."
    )
    workspace_growth_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(2 * GIB),
        ge=MIB,
        description="Maximum growth of the workspace while a jail is open. "
        "`workspace.quota_bytes` applies too.",
    )
    workspace_growth_files: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        500_000,
        ge=100,
        le=100_000_000,
        description="Maximum number of files and directories added to the workspace while a jail is open.",
    )
    command_timeout_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        30,
        ge=1,
        le=600,
        description="Seconds that a command may take. In the agent's shell, seconds that a command may print "
        "nothing, unless the agent sets a timeout for it.",
    )
    command_total_s: Annotated[Count, RepositoryAccess.TIGHTEN] = Field(
        600,
        ge=1,
        le=600,
        description="Seconds that a command may take in all, whatever timeout it asks for. With the default, "
        "commands that a user starts in the background have no timeout; a lower value applies to them too.",
    )
    output_bytes: Annotated[Size, RepositoryAccess.TIGHTEN] = Field(
        ByteSize(MIB),
        ge=4096,
        description="Output of one command that is kept; of longer output, the middle is omitted.",
    )
    network: Annotated[Hosts, RepositoryAccess.TIGHTEN] = Field(
        (),
        description="Hosts that the jail may reach: `docs.example.com`, or `*.example.org` for all "
        "its subdomains.",
    )
    allowed_commands: Annotated[Texts, RepositoryAccess.NEVER] = Field(
        (),
        description="The only programs that `exec` runs, by the name that is called: `git`, `pytest`. "
        "Empty: all. In the agent's `bash` the list is only checked as far as the text shows.",
    )
    variables: Annotated[Variables, RepositoryAccess.NEVER] = Field(
        {},
        description='Variables of every command in a jail: `variables = { TZ = "UTC" }`. Those of a '
        "session come before them. Secrets are given by name: see [jail-variables.md](jail-variables.md).",
    )
    toolchains: Annotated[Texts, RepositoryAccess.NEVER] = Field(
        (),
        description="Directories of toolchains that jails see, read-only and at the same path: `/opt/go`, "
        "`~/.cargo`, `~/.nvm`. Their programs are in PATH. `hutch doctor` proposes some. "
        "See [jail-variables.md](jail-variables.md).",
    )
    private_networks: Annotated[Networks, RepositoryAccess.NEVER] = Field(
        (),
        description="Private or local networks that allowed hosts may resolve to: `10.1.2.0/24`.",
    )


class Members(Section):
    """Caps on what members may ask for in their sessions, over every interface. Owners are not limited.

    A resource that is not set here is limited to the value of `jail`.
    """

    network: Annotated[HostPatterns, RepositoryAccess.NEVER] = Field(
        (),
        description="Hosts that members may allow for the jails of their sessions, besides those of "
        "`jail.network`: `*.example.org`, `example.com:8443`; `*` is every public host and port. "
        "None by default. Owners may allow any.",
    )
    memory_bytes: Annotated[Size | None, RepositoryAccess.NEVER] = Field(
        None, ge=64 * MIB, description="Maximum `memory_bytes` of a session."
    )
    processes: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=16, le=1_000_000, description="Maximum `processes`."
    )
    cpus: Annotated[Amount | None, RepositoryAccess.NEVER] = Field(
        None, ge=0.01, le=1024, description="Maximum `cpus`."
    )
    cpu_time_s: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=1, le=31_536_000, description="Maximum `cpu_time_s`."
    )
    workspace_growth_bytes: Annotated[Size | None, RepositoryAccess.NEVER] = Field(
        None, ge=MIB, description="Maximum `workspace_growth_bytes`."
    )
    workspace_growth_files: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=100, le=100_000_000, description="Maximum `workspace_growth_files`."
    )
    open_files: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=256, le=1_000_000, description="Maximum `open_files`."
    )
    file_bytes: Annotated[Size | None, RepositoryAccess.NEVER] = Field(
        None, ge=MIB, description="Maximum `file_bytes`."
    )
    command_timeout_s: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None,
        ge=1,
        le=600,
        description="Maximum `command_timeout_s`, and the longest timeout that a single command can ask for. "
        "A command that asks for more ends after it; one of the agent, after so long without output.",
    )
    command_total_s: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=1, le=600, description="Maximum `command_total_s`."
    )
    output_bytes: Annotated[Size | None, RepositoryAccess.NEVER] = Field(
        None, ge=4096, description="Maximum `output_bytes`."
    )
    run_turns: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=1, description="Maximum replies of a run. No maximum when not set."
    )
    run_tokens: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=1, description="Maximum tokens of a run. No maximum when not set."
    )
    run_cost_usd: Annotated[Amount | None, RepositoryAccess.NEVER] = Field(
        None, gt=0, description="Maximum cost of a run in dollars. No maximum when not set."
    )
    run_timeout_s: Annotated[Count | None, RepositoryAccess.NEVER] = Field(
        None, ge=1, description="Maximum seconds of a run. No maximum when not set."
    )
