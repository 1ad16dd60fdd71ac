"""Which forge a repository is on, with whose credentials, and whether it may be reached at all."""

import asyncio
from dataclasses import replace
from functools import partial
from pathlib import Path

from hutch.app.forge_tokens import is_forge, token_name, token_of
from hutch.app.models import secrets_of
from hutch.domain.errors import Conflict, NotFound
from hutch.forge.gh import Gh, Patience
from hutch.forge.github import USER, GitHub
from hutch.forge.reach import Reach
from hutch.forge.repo_url import RepoUrl, from_path, parse_repo_url
from hutch.forge.seam import Forge
from hutch.jail.egress.addresses import refusal
from hutch.jail.scratch import make_directory
from hutch.settings import Loaded, user_environment
from hutch.store.rows import Rows
from hutch.store.users import Users

OWN = ("127.0.0.1", "::1", "localhost")


def reach_of(loaded: Loaded) -> Reach:
    """What requests may name."""
    settings = loaded.settings
    names = (host.rpartition(":")[0] if _has_port(host) else host for host in settings.github.hosts)
    return Reach(refusal, (*settings.server.allowed_hosts, *names))


async def may_use_account(rows: Rows, user: str) -> bool:
    """Whether somebody may reach what the account that runs this server can: owners, as it is theirs."""
    try:
        return (await Users(rows).get(user)).role == "owner"
    except NotFound:
        return False


async def reachable(
    loaded: Loaded, source: str, *, user: str = "", guarded: bool = True, account: bool = False
) -> RepoUrl:
    """A repository to fetch from or push to: with the credentials that there are for it and, on behalf of
    whoever asks over the network, bound to where it may be, and without those of the account unless it is
    for somebody who may use them."""
    url = replace(parse_repo_url(source), account=account or not guarded)
    if url.path is not None:
        # Whoever runs a command may follow links, once; what a request named was resolved when it came.
        return url if guarded else replace(from_path(await asyncio.to_thread(_real, url.path)), account=True)
    token = token_of(loaded, url, user)
    if token is not None and url.credentials is None:
        url = replace(_over_tls(url), credentials=(USER, await token()))
    return await reach_of(loaded).pin(url) if guarded else url


def _real(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # links that lead in a circle
        raise NotFound(f"There is no directory '{path}' on this machine.") from None


def forge_of(loaded: Loaded, source: str | RepoUrl, *, user: str = "") -> Forge | None:
    """The forge of a repository; None where a branch is all that can be had."""
    url = parse_repo_url(source) if isinstance(source, str) else source
    token = token_of(loaded, url, user)
    if token is None or url.slug is None:
        return None
    github = loaded.settings.github
    gh = Gh(
        url.authority,
        token,
        user_environment(),
        github.unix_socket or "",
        Patience(longest_wait_s=github.longest_wait_s),
        partial(make_directory, "hutch-gh"),  # cleared by the next process, if this one is killed
    )
    return GitHub(gh, _over_tls(url))


def need_forge(loaded: Loaded, source: str, *, user: str = "") -> Forge:
    """The same, for who cannot do without."""
    found = forge_of(loaded, source, user=user)
    if found is None:
        url = parse_repo_url(source)
        if url.host and not is_forge(loaded, url):
            same = [host for host in loaded.settings.github.hosts if host.rpartition(":")[0] == url.host]
            way = (
                f"github.hosts has {same[0]}: give its address with that port."
                if same
                else f"Where {url.authority} is a GitHub Enterprise Server, list it in github.hosts."
            )
            raise Conflict(
                f"{url} is on no GitHub that is known here, and only there are pull requests. {way}"
            )
        name = token_name(url)
        raise Conflict(f"There is no token for {url}. Set one: hutch config set-secret {name}")
    return found


def web_address(source: str) -> str:
    """A repository on a GitHub as people visit it, however it is fetched."""
    url = parse_repo_url(source)
    scheme = url.transport if url.transport in ("http", "https") else "https"
    return f"{scheme}://{url.authority}/{'/'.join(url.slug or ())}"


def has_own_token(loaded: Loaded, source: str, user: str) -> bool:
    """Whether what is done for a user there is done as themselves; on the command line it always is."""
    own = f"{token_name(parse_repo_url(source))}_{user}"
    return not user or bool(secrets_of(loaded, {own}).get(own, "").strip())


def _has_port(host: str) -> bool:
    """An address of the other kind has colons as well."""
    return host.count(":") == 1 or "]:" in host


def _over_tls(url: RepoUrl) -> RepoUrl:
    """The way by which a token may go: nobody reads along, or it stays on this machine."""
    if url.transport == "https" or (url.transport == "http" and url.host in OWN) or url.slug is None:
        return url
    safe = parse_repo_url(f"https://{url.host}/{'/'.join(url.slug)}.git")
    return replace(safe, credentials=url.credentials, pinned=url.pinned, account=url.account)
