"""Translates git's error messages about a remote into Hutch errors with advice."""

import re
from collections.abc import Callable

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.forge.repo_url import TOKEN_USER, RepoUrl

MakeError = Callable[[str, RepoUrl], HutchError]


def _bad_objects(line: str, url: RepoUrl) -> HutchError:
    return BadRequest(f"{url} contains objects that git refuses: {line}. `git fsck` in a clone lists them.")


def token_secret_name(host: str) -> str:
    """The secret that holds the installation's token for a GitHub."""
    return "github_token" if host.partition(":")[0] == "github.com" else "github_enterprise_token"


def _other_causes(url: RepoUrl) -> str:
    """Other causes for a repository that cannot be seen."""
    if url.credentials is None:
        return "or is private, or does not allow this"
    if url.credentials[0] == TOKEN_USER:
        return "or Hutch's token for it has no access"
    return "or the credentials in its address have no access"


def _access_hint(url: RepoUrl) -> str:
    if url.credentials is not None and url.credentials[0] == TOKEN_USER:
        name = token_secret_name(url.host)
        return (
            f"Grant the token access, or set another one: hutch config set-secret {name} (a user's own "
            f"token is {name}_ followed by their id)."
        )
    if url.credentials is not None:
        return "Put other credentials into the address."
    if url.account:
        return (
            "The account that runs Hutch needs an ssh key or a git credential helper for it (for GitHub: gh "
            "auth login, then gh auth setup-git)."
        )
    return (
        "Only owners may use the credentials of the server's account. For a repository on GitHub, ask the "
        f"server's operator to set a token: hutch config set-secret {token_secret_name(url.host)}."
    )


FETCH_ERRORS: tuple[tuple[str, MakeError], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        lambda line, url: Unavailable(
            f"The disk is too full to fetch {url}: {line}. Free some space and retry."
        ),
    ),
    (r"^object [0-9a-f]{40}: ", _bad_objects),  # the line that names the fault
    (
        r"Could not resolve host|Name or service not known|nodename nor servname|Temporary failure in name",
        lambda line, url: Unavailable(
            f"The host of {url} cannot be resolved: {line}. Check its spelling and the network."
        ),
    ),
    (
        r"Host key verification failed|REMOTE HOST IDENTIFICATION HAS CHANGED",
        lambda line, url: Denied(
            f"ssh does not know the host key of {url}. Connect to it once by hand and check the key."
        ),
    ),
    (
        r"Permission denied \(|Authentication failed|could not read (Username|Password)"
        r"|terminal prompts disabled|HTTP 40[13]|returned error: 40[13]|Access denied|[Bb]ad credentials",
        lambda line, url: Denied(
            f"{url} does not exist, {_other_causes(url)}: {line}. Check the address. {_access_hint(url)}"
        ),
    ),
    (
        r"Couldn't find remote ref|couldn't find remote ref|not our ref|no such remote ref",
        lambda line, url: NotFound(
            f"{url} does not have that revision: {line}. Name a branch, a tag or a full commit id."
        ),
    ),
    (
        r"[Rr]epository ('.*' )?not found|does not appear to be a git repository|returned error: 404"
        r"|did you run git update-server-info|not a git repository|requested repository does not exist",
        lambda line, url: NotFound(
            f"{url} does not exist, {_other_causes(url)}. Check the address. {_access_hint(url)}"
            if url.path is None
            else f"There is no repository at {url}. Check the path."
        ),
    ),
    (
        r"returned error: 30\d",
        lambda line, url: NotFound(f"{url} has moved to another address. Use that one."),
    ),
    (
        r"certificate|SSL|TLS|gnutls",
        lambda line, url: Unavailable(
            f"The connection to {url} cannot be trusted: {line}. Check its certificate."
        ),
    ),
    (
        r"Connection (refused|reset|timed out|closed)|Failed to connect|Couldn't connect|Operation timed out"
        r"|Network is unreachable|No route to host|early EOF|hung up|too slow|returned error: 5\d\d",
        lambda line, url: Unavailable(f"{url} does not answer: {line}. Retry, and check the network."),
    ),
    (
        r"cannot lock ref",
        lambda line, url: Unavailable(f"git cannot store the refs of {url}: {line}. Retry."),
    ),
    (
        r"transport '.*' not allowed",
        lambda line, url: Denied(f"{url} redirects to a protocol that is not allowed: {line}."),
    ),
    (r"fsck error|error in object|bad pack", _bad_objects),
    (
        # The kernel killed the program that unpacked it; see `host_process_limits`.
        r"invalid index-pack output|died of signal 25|File too large",
        lambda line, url: LimitReached(
            f"{url} is larger than workspace.bases_bytes allows. Raise that setting.",
            limit="workspace.bases_bytes",
        ),
    ),
    (r"index-pack failed|invalid", _bad_objects),
)
# Refused pushes. `MakeError` gets the server's message.
PUSH_ERRORS: tuple[tuple[str, MakeError], ...] = (
    (
        r"GH006|GH013|[Pp]rotected branch|[Rr]ule violations",
        lambda text, url: Denied(f"{url} protects this branch and refuses the push: {text}."),
    ),
    (
        r"without `workflows?` (scope|permission)",
        lambda text, url: Denied(
            f"{url} refuses changes to workflows with this token: {text}. Grant it the workflow permission."
        ),
    ),
    (
        r"GH00[18]|file size limit|LFS objects|larger than .* limit",
        lambda text, url: Conflict(
            f"{url} refuses a file that is too large, or that LFS should hold: {text}."
        ),
    ),
    (
        r"hook declined|declined by",
        lambda text, url: Denied(f"A hook of {url} refuses the push: {text}."),
    ),
    (
        r"stale info|fetch first|non-fast-forward|but expected|failed to update ref",
        lambda text, url: Conflict(f"The branch at {url} has moved in the meantime: {text}. Deliver again."),
    ),
    (
        r"\[remote rejected\]|\[rejected\]",
        lambda text, url: Conflict(f"{url} refuses the push: {text}."),
    ),
)
MAX_LINE_CHARS = 300
MAX_SERVER_LINES = 6


def explain(stderr: str, url: RepoUrl) -> HutchError:
    """The error for git's standard error. Its class says who can fix it."""
    lines = [_clean_line(line) for line in stderr.splitlines() if line.strip()]
    for pattern, make in PUSH_ERRORS:
        if any(re.search(pattern, line) for line in lines):
            return make(_server_message(stderr, lines), url)
    for pattern, make in FETCH_ERRORS:
        for line in lines:
            if re.search(pattern, line):
                return make(line, url)
    last = lines[-1] if lines else "no reason given"
    return Unavailable(f"git cannot fetch {url}: {last}. Try the same command by hand.")


def _server_message(stderr: str, lines: list[str]) -> str:
    """The server's own message, and git's line about the refusal."""
    remote = [
        _clean_line(line) for line in stderr.splitlines() if line.startswith("remote: ") and line[8:].strip()
    ]
    refused = [line for line in lines if "rejected]" in line]
    return "; ".join([*remote[:MAX_SERVER_LINES], *refused[:1]])[: 3 * MAX_LINE_CHARS]


def _clean_line(line: str) -> str:
    """A line of untrusted text, made fit for a message: short, printable, without a final full stop."""
    line = re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "?", line)[:MAX_LINE_CHARS]
    return re.sub(r"^(fatal|error|remote|ERROR): *", "", line).strip().rstrip(".")
