"""Settings of the server, of its sessions, and of GitHub, login and telemetry."""

from typing import Annotated, Literal

from pydantic import ByteSize, Field

from hutch.settings.repository_settings_file import RepositoryAccess
from hutch.settings.value_types import (
    GIB,
    MIB,
    Address,
    Count,
    Directories,
    Forges,
    Hosts,
    Issuer,
    Listener,
    Networks,
    Reachables,
    Section,
    Size,
    Text,
    Texts,
)


class Server(Section):
    """The server's address and host names, and its limits for one caller."""

    host: Annotated[Listener, RepositoryAccess.NEVER] = Field(
        "127.0.0.1",
        description="The address to listen on. If other machines can reach it, use TLS or a proxy; "
        "otherwise the server warns.",
    )
    port: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8484, ge=0, le=65535, description="The port; 0 selects a free one."
    )
    hostnames: Annotated[Hosts, RepositoryAccess.NEVER] = Field(
        (),
        description="Host names that browsers may use for this server, besides `localhost` and its address.",
    )
    public_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None,
        description="The public URL, when it is not the server's own address: `https://hutch.example.com`.",
    )
    trusted_proxies: Annotated[Networks, RepositoryAccess.NEVER] = Field(
        (),
        description="Proxies whose forwarded client addresses are trusted: `10.1.2.3`, `10.1.2.0/24`.",
    )
    tls_cert: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A file with the TLS certificate and its chain."
    )
    tls_key: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A file with the private key of the certificate."
    )
    body_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(16 * MIB), ge=1024, description="Maximum size of a request body."
    )
    body_timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60, ge=1, le=3600, description="Seconds that a request body may take to arrive."
    )
    requests_per_minute: Annotated[Count, RepositoryAccess.NEVER] = Field(
        1200,
        ge=1,
        le=10_000_000,
        description="Maximum requests with one token or browser login; without either, from one address.",
    )
    streams_per_user: Annotated[Count, RepositoryAccess.NEVER] = Field(
        200,
        ge=1,
        le=100_000,
        description="Open streams of one user: followed sessions, terminals, subscriptions.",
    )
    slow_client_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds after which a client that does not read its stream is disconnected.",
    )
    preview_domain: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "localhost",
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?$",
        description="The domain of previews: each opened port of a jail gets a subdomain. "
        "All subdomains must resolve to this server.",
    )
    shutdown_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        20, ge=1, le=3600, description="Seconds that an orderly shutdown may take before it is aborted."
    )
    metrics_open: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False,
        description="Whether everyone may read `/metrics`; otherwise only this machine, and owners by token.",
    )
    repository_hosts: Annotated[Reachables, RepositoryAccess.NEVER] = Field(
        (),
        description="Hosts in private networks, or on this machine, from which the server may clone: "
        "`git.example.com`, `10.1.2.0/24`. Public hosts are always allowed.",
    )
    repository_roots: Annotated[Directories, RepositoryAccess.NEVER] = Field(
        (),
        description="Directories of this machine whose repositories members may use: `/srv/git`. "
        "Owners may use any.",
    )


class Github(Section):
    """Pull requests on GitHub. `hutch config set-secret github_token` stores its token."""

    hosts: Annotated[Forges, RepositoryAccess.NEVER] = Field(
        (),
        description="GitHub Enterprise servers, besides github.com: `github.example.com`, or "
        "`github.example.com:8443` where it is not port 443.",
    )
    app_id: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None,
        pattern=r"^[A-Za-z0-9.]{1,64}$",
        description="The id of a GitHub App, used instead of a token; its private key is the secret "
        "`github_app_key`.",
    )
    app_host: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "github.com", description="The host of that App."
    )
    unix_socket: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A Unix socket through which GitHub's API is called, such as that of a proxy."
    )
    mention: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "hutch",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$",
        description="The name of Hutch on GitHub, without `@`: the login of its user or App. A comment with "
        "`@hutch`, or an issue that is assigned to it, starts a run.",
    )
    run_as: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None,
        description="The user of this server in whose name requests from GitHub run; an owner when not set.",
    )
    max_retry_wait_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60, ge=0, le=3600, description="Maximum seconds to wait when GitHub's rate limit is used up."
    )


class Telemetry(Section):
    """Where traces are sent."""

    otlp_endpoint: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None,
        description="An OTLP collector over HTTP: `http://127.0.0.1:4318`. When not set, no traces are sent.",
    )


class Oidc(Section):
    """Login by an identity provider. `hutch config set-secret oidc_client_secret` stores its secret."""

    issuer: Annotated[Issuer | None, RepositoryAccess.NEVER] = Field(
        None, description="The issuer URL of the provider: `https://login.example.com`."
    )
    client_id: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="The client id of this server at the provider."
    )
    allowed_emails: Annotated[Texts, RepositoryAccess.NEVER] = Field(
        (), description="Verified e-mail addresses that may log in."
    )
    allowed_domains: Annotated[Hosts, RepositoryAccess.NEVER] = Field(
        (), description="Domains whose verified e-mail addresses may all log in: `example.com`."
    )
    role: Annotated[Literal["member", "observer", "assessor", "candidate"], RepositoryAccess.NEVER] = Field(
        "member", description="The role of a user after their first login."
    )


class Sessions(Section):
    """How many sessions a server runs, and how long it keeps their jails and files."""

    runs: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8,
        ge=1,
        le=10_000,
        description="Concurrent runs; others wait in a queue. A run that waits for an approval or an answer "
        "does not count. It continues at once when it gets the answer, even if there are then more runs for "
        "a while.",
    )
    runs_per_user: Annotated[Count, RepositoryAccess.NEVER] = Field(
        4, ge=1, le=10_000, description="Concurrent runs of one user, without those that wait for an answer."
    )
    waiting_runs: Annotated[Count, RepositoryAccess.NEVER] = Field(
        64,
        ge=0,
        le=10_000,
        description="Runs that may wait for an approval or an answer without counting towards `runs`. Each "
        "keeps its jail open: about 7 MiB, and the memory of programs that it left running. More than these "
        "count like running ones.",
    )
    waiting_runs_per_user: Annotated[Count, RepositoryAccess.NEVER] = Field(
        16,
        ge=0,
        le=10_000,
        description="Waiting runs of one user that do not count towards `runs_per_user`.",
    )
    open: Annotated[Count, RepositoryAccess.NEVER] = Field(
        200, ge=1, le=100_000, description="Maximum number of jails that are open at one time."
    )
    idle_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        900,
        ge=1,
        le=31_536_000,
        description="Seconds after which an idle session is parked: its jail is closed, its files stay, "
        "and the next use wakes it.",
    )
    file_retention_days: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=0,
        le=36_500,
        description="Days of inactivity after which a session is ended and its files are removed; its log "
        "stays. 0 keeps the files forever.",
    )
    code_retention_hours: Annotated[Count, RepositoryAccess.NEVER] = Field(
        24,
        ge=0,
        le=876_000,
        description="Hours after which the files of a finished `POST /api/code` are removed. If its delivery "
        "failed, or if this is 0, `file_retention_days` applies instead.",
    )
    file_retention_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(2 * GIB),
        description="Size of the files of all parked and ended sessions beyond which the files of ended "
        "sessions, and of runs that failed before they changed anything, are removed. Work that was not "
        "delivered stays. 0 means no limit.",
    )
    log_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(256 * MIB),
        ge=MIB,
        description="Maximum size of a session's log, in bytes of event payloads. After three quarters, the "
        "log notes that it omits the output of commands and terminals. When it is full, nothing new starts "
        "in the session; it can still be ended and exported.",
    )
    messages_per_minute: Annotated[Count, RepositoryAccess.NEVER] = Field(
        120,
        ge=1,
        le=100_000,
        description="Messages and prompts that one session accepts in a minute; more are refused with the "
        "time of the next attempt.",
    )
    runs_per_hour: Annotated[Count, RepositoryAccess.NEVER] = Field(
        600, ge=1, le=1_000_000, description="Runs that may start in one session in an hour."
    )
    lease_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds after which another worker takes over the run of a dead worker.",
    )
