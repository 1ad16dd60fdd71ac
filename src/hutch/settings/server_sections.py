"""Settings of the server, and of the provider that may log people in."""

from typing import Annotated, Literal

from pydantic import ByteSize, Field

from hutch.settings.repository import RepositoryAccess
from hutch.settings.value_types import (
    MIB,
    Address,
    Count,
    Directories,
    Forges,
    HostPatterns,
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
    """Where the server listens, by which names it is called, and how much one caller may ask."""

    host: Annotated[Listener, RepositoryAccess.NEVER] = Field(
        "127.0.0.1",
        description="The address to listen on. Anything but this machine's own needs TLS or a proxy.",
    )
    port: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8484, ge=0, le=65535, description="The port; 0 takes a free one."
    )
    hostnames: Annotated[Hosts, RepositoryAccess.NEVER] = Field(
        (),
        description="Names by which browsers may call this server, beside `localhost` and its own address.",
    )
    public_url: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None,
        description="Where people open it, when that is not its own address: `https://hutch.example.com`.",
    )
    trusted_proxies: Annotated[Networks, RepositoryAccess.NEVER] = Field(
        (),
        description="Proxies that are believed when they say for whom they ask: `10.1.2.3`, `10.1.2.0/24`.",
    )
    tls_cert: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A file with the certificate, and those above it, for TLS."
    )
    tls_key: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A file with the certificate's key."
    )
    body_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(16 * MIB), ge=1024, description="What one request may carry."
    )
    body_timeout_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60, ge=1, le=3600, description="Seconds that a request may take to arrive."
    )
    requests_per_minute: Annotated[Count, RepositoryAccess.NEVER] = Field(
        1200,
        ge=1,
        le=10_000_000,
        description="Requests of one caller. Who shows no valid token or cookie is counted by address.",
    )
    streams_per_user: Annotated[Count, RepositoryAccess.NEVER] = Field(
        200,
        ge=1,
        le=100_000,
        description="Streams that one user may have open: sessions that are followed, terminals, "
        "subscriptions.",
    )
    slow_client_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds after which who follows a session and does not read is let go.",
    )
    preview_domain: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "localhost",
        pattern=r"^[a-z0-9]([a-z0-9.-]{0,200}[a-z0-9])?$",
        description="Under it, each port of a jail that somebody opens has a name of its own. "
        "All names below it must lead to this server.",
    )
    shutdown_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        20, ge=1, le=3600, description="Seconds that an orderly end may take before it is cut short."
    )
    metrics_open: Annotated[bool, RepositoryAccess.NEVER] = Field(
        False,
        description="Whether anybody may read `/metrics`; else this machine, and owners by their token.",
    )
    allowed_hosts: Annotated[Reachables, RepositoryAccess.NEVER] = Field(
        (),
        description="Machines of private networks, or this one, that requests may name as the place of a "
        "repository: `git.example.com`, `10.1.2.0/24`. Those of the open Internet need not be listed.",
    )
    network_allowed: Annotated[HostPatterns, RepositoryAccess.NEVER] = Field(
        (),
        description="Hosts that members may allow for the jails of their sessions, beside those of "
        "`jail.network`: `*.example.org`, `example.com:8443`; `*` is every public host and port. "
        "None by default. Owners may allow any.",
    )
    repository_roots: Annotated[Directories, RepositoryAccess.NEVER] = Field(
        (),
        description="Directories of this machine under which members may name repositories: `/srv/git`. "
        "Owners may name any.",
    )


class Github(Section):
    """Pull requests on GitHub. `hutch config set-secret github_token` keeps the token for it."""

    hosts: Annotated[Forges, RepositoryAccess.NEVER] = Field(
        (),
        description="Servers of GitHub Enterprise, beside github.com: `github.example.com`, or "
        "`github.example.com:8443` where it is not port 443.",
    )
    app_id: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None,
        pattern=r"^[A-Za-z0-9.]{1,64}$",
        description="The id of a GitHub App that works instead of a token; its private key is the secret "
        "`github_app_key`.",
    )
    app_host: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "github.com", description="Where that App is at home."
    )
    unix_socket: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="A Unix socket that leads to GitHub's API, such as that of a proxy."
    )
    mention: Annotated[Text, RepositoryAccess.NEVER] = Field(
        "hutch",
        pattern=r"^[A-Za-z0-9][A-Za-z0-9-]{0,38}$",
        description="By which name Hutch is called in comments: `@hutch`. Issues that are assigned to it are "
        "taken up, too; it is the login of its user or App there.",
    )
    run_as: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None,
        description="The user of this server who works on what is asked on GitHub; else an owner.",
    )
    longest_wait_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        60, ge=0, le=3600, description="Seconds to wait when GitHub's limit of requests is used up."
    )


class Telemetry(Section):
    """Where traces are sent."""

    otlp_endpoint: Annotated[Address | None, RepositoryAccess.NEVER] = Field(
        None,
        description="A collector that speaks OTLP over HTTP: `http://127.0.0.1:4318`. Without, no traces.",
    )


class Oidc(Section):
    """Login by an identity provider. `hutch config set-secret oidc_client_secret` keeps its secret."""

    issuer: Annotated[Issuer | None, RepositoryAccess.NEVER] = Field(
        None, description="The provider, as it calls itself: `https://login.example.com`."
    )
    client_id: Annotated[Text | None, RepositoryAccess.NEVER] = Field(
        None, description="The name under which the provider knows this server."
    )
    allowed_emails: Annotated[Texts, RepositoryAccess.NEVER] = Field(
        (), description="Verified e-mail addresses that may log in."
    )
    allowed_domains: Annotated[Hosts, RepositoryAccess.NEVER] = Field(
        (), description="Domains whose verified e-mail addresses may all log in: `example.com`."
    )
    role: Annotated[Literal["member", "observer", "assessor", "candidate"], RepositoryAccess.NEVER] = Field(
        "member", description="What somebody becomes who logs in for the first time."
    )


class Sessions(Section):
    """How many sessions a server works on, and for how long it keeps their jails open."""

    runs: Annotated[Count, RepositoryAccess.NEVER] = Field(
        8, ge=1, le=10_000, description="Runs of agents at one time; others wait in a queue."
    )
    runs_per_user: Annotated[Count, RepositoryAccess.NEVER] = Field(
        4, ge=1, le=10_000, description="Runs of one user at one time."
    )
    open: Annotated[Count, RepositoryAccess.NEVER] = Field(
        200, ge=1, le=100_000, description="Jails that are open at one time."
    )
    idle_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        900,
        ge=1,
        le=31_536_000,
        description="Seconds after which a session that nobody uses is parked: its jail is closed, its files "
        "are kept, and the next use wakes it.",
    )
    keep_days: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=0,
        le=36_500,
        description="Days after which the files of a session in which nothing was done are removed, and it "
        "is ended; what happened stays in its log. 0 keeps them for good.",
    )
    keep_code_hours: Annotated[Count, RepositoryAccess.NEVER] = Field(
        24,
        ge=0,
        le=876_000,
        description="The same for a request of `POST /api/code`, in hours after its end; what could not be "
        "delivered is kept as the files of any session. 0 keeps them as those, too.",
    )
    log_bytes: Annotated[Size, RepositoryAccess.NEVER] = Field(
        ByteSize(256 * MIB),
        ge=MIB,
        description="How large the log of a session may grow, in bytes of what its events say. Output has "
        "three quarters of it and is left out then, which the log says; when all is used, nothing "
        "new is begun in the session. It can be ended and exported all the same.",
    )
    lease_s: Annotated[Count, RepositoryAccess.NEVER] = Field(
        30,
        ge=1,
        le=3600,
        description="Seconds after which another worker takes up the run of one that is gone.",
    )
