"""What git's complaints about another machine mean, and what to do about them."""

import re
from collections.abc import Callable

from hutch.domain.errors import BadRequest, Conflict, Denied, HutchError, LimitReached, NotFound, Unavailable
from hutch.forge.repo_url import TOKEN_USER, RepoUrl

MakeError = Callable[[str, RepoUrl], HutchError]


def _bad_objects(line: str, url: RepoUrl) -> HutchError:
    return BadRequest(
        f"{url} holds objects that git refuses: {line}. `git fsck` in a copy of it tells which."
    )


def token_secret_name(host: str) -> str:
    """The secret that holds the installation's token for a GitHub."""
    return "github_token" if host.partition(":")[0] == "github.com" else "github_enterprise_token"


def _other_causes(url: RepoUrl) -> str:
    """What may be so instead, where a repository is not shown to us."""
    if url.credentials is None:
        return "or is private, or does not let us do this"
    if url.credentials[0] == TOKEN_USER:
        return "or the token that Hutch has for it does not reach it"
    return "or the credentials in its address do not reach it"


def _access_hint(url: RepoUrl) -> str:
    if url.credentials is not None and url.credentials[0] == TOKEN_USER:
        name = token_secret_name(url.host)
        return (
            f"Give the token the rights it needs there, or set another: hutch config set-secret {name} (a "
            f"user's own is {name}_ and their id)."
        )
    if url.credentials is not None:
        return "Put others into the address."
    if url.account:
        return (
            "Where Hutch runs, an ssh key or a git credential helper must reach it (for GitHub: gh auth "
            "login, then gh auth setup-git)."
        )
    return (
        "What this server's own account may reach is for owners alone. Where it is on a GitHub, have whoever "
        f"runs the server set a token: hutch config set-secret {token_secret_name(url.host)}."
    )


FETCH_ERRORS: tuple[tuple[str, MakeError], ...] = (
    (
        r"No space left on device|Disk quota exceeded",
        lambda line, url: Unavailable(
            f"No room on the disk to fetch {url}: {line}. Free some and try again."
        ),
    ),
    (r"^object [0-9a-f]{40}: ", _bad_objects),  # names the fault; that the line is cut is said as well
    (
        r"Could not resolve host|Name or service not known|nodename nor servname|Temporary failure in name",
        lambda line, url: Unavailable(
            f"The host of {url} is not known here: {line}. Check how it is written, and the network."
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
            f"{url} does not have that: {line}. Name a branch, a tag or a full commit id."
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
        lambda line, url: NotFound(f"{url} has moved to another address. Give that one."),
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
        lambda line, url: Unavailable(f"{url} does not answer: {line}. Try again, and check the network."),
    ),
    (
        r"cannot lock ref",
        lambda line, url: Unavailable(f"git cannot write what {url} has: {line}. Try again."),
    ),
    (
        r"transport '.*' not allowed",
        lambda line, url: Denied(f"{url} leads to a way of fetching that is not allowed: {line}."),
    ),
    (r"fsck error|error in object|bad pack", _bad_objects),
    (
        # What was unpacking it was ended by the kernel, see `leash`.
        r"invalid index-pack output|died of signal 25|File too large",
        lambda line, url: LimitReached(
            f"{url} is larger than what is kept of repositories here. Raise workspace.bases_bytes.",
            limit="workspace.bases_bytes",
        ),
    ),
    (r"index-pack failed|invalid", _bad_objects),
)
# What a server says of a push; the maker is given the server's own words.
PUSH_ERRORS: tuple[tuple[str, MakeError], ...] = (
    (
        r"GH006|GH013|[Pp]rotected branch|[Rr]ule violations",
        lambda said, url: Denied(f"{url} protects this branch, and refuses the push: {said}."),
    ),
    (
        r"without `workflows?` (scope|permission)",
        lambda said, url: Denied(
            f"{url} refuses changes to workflows by this token: {said}. Give it the right to workflows."
        ),
    ),
    (
        r"GH00[18]|file size limit|LFS objects|larger than .* limit",
        lambda said, url: Conflict(
            f"{url} refuses a file that is too large, or that LFS should hold: {said}."
        ),
    ),
    (
        r"hook declined|declined by",
        lambda said, url: Denied(f"A hook of {url} refuses the push: {said}."),
    ),
    (
        r"stale info|fetch first|non-fast-forward|but expected|failed to update ref",
        lambda said, url: Conflict(f"The branch at {url} has moved meanwhile: {said}. Deliver it again."),
    ),
    (
        r"\[remote rejected\]|\[rejected\]",
        lambda said, url: Conflict(f"{url} refuses the push: {said}."),
    ),
)
MAX_LINE_CHARS = 300
MAX_SERVER_LINES = 6


def explain(said: str, url: RepoUrl) -> HutchError:
    """The error for git's words, of the family of who must act."""
    lines = [_clean_line(line) for line in said.splitlines() if line.strip()]
    for pattern, make in PUSH_ERRORS:
        if any(re.search(pattern, line) for line in lines):
            return make(_server_message(said, lines), url)
    for pattern, make in FETCH_ERRORS:
        for line in lines:
            if re.search(pattern, line):
                return make(line, url)
    last = lines[-1] if lines else "it did not say why"
    return Unavailable(f"git cannot fetch {url}: {last}. Try the same with git by hand.")


def _server_message(said: str, lines: list[str]) -> str:
    """What the server itself said, or else the line that tells of the refusal."""
    told = [
        _clean_line(line) for line in said.splitlines() if line.startswith("remote: ") and line[8:].strip()
    ]
    refused = [line for line in lines if "rejected]" in line]
    return "; ".join([*told[:MAX_SERVER_LINES], *refused[:1]])[: 3 * MAX_LINE_CHARS]


def _clean_line(line: str) -> str:
    """One line of a stranger's, fit for a message: short, no control characters, no full stop at its end."""
    line = re.sub(r"[^\x20-\x7e\u00a0-\uffff]", "?", line)[:MAX_LINE_CHARS]
    return re.sub(r"^(fatal|error|remote|ERROR): *", "", line).strip().rstrip(".")
