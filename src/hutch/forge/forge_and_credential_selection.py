"""Chooses the forge of a repository and the credentials, and checks that it may be contacted."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import field, replace
from pathlib import Path

from hutch.domain.errors import Conflict, NotFound
from hutch.domain.proposed_change import Change
from hutch.forge.allowed_repository_hosts import AllowedHosts
from hutch.forge.gh_command import Gh, RetryPolicy
from hutch.forge.github_forge import GitHubForge
from hutch.forge.github_repository_api import USER, GitHub
from hutch.forge.github_token_selection import Tokens, token_name
from hutch.forge.interface import Forge
from hutch.forge.local_forge import LocalRepository
from hutch.forge.local_repository_jailed_git import OpenGit
from hutch.forge.plain_git_forge import PlainGit
from hutch.forge.repo_url import RepoUrl, from_path, parse_repo_url
from hutch.system.lazy_dataclass import dataclass

LOOPBACK_HOSTS = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True, slots=True)
class ForgeAccess:
    """The user on whose behalf a repository is contacted.

    A `guarded` caller reaches only hosts that requests may name. With `account`, the keys and credential
    helpers of the account that runs Hutch may be used even so.
    """

    user: str = ""  # whose own token is preferred; empty on the command line
    guarded: bool = False
    account: bool = False


COMMAND_LINE = ForgeAccess()


@dataclass(frozen=True, slots=True)
class Forges:
    """The forges that an installation can reach."""

    tokens: Tokens
    allowed_hosts: AllowedHosts
    open_git: OpenGit  # for repositories on this machine
    make_home: Callable[[], Path]  # makes a directory for one run of gh
    retry_policy: RetryPolicy
    environment: Mapping[str, str] = field(repr=False)

    def for_change(self, change: Change, user: str = "", *, unrestricted: bool) -> Forge:
        """The forge of a change. `unrestricted` lifts the limits on repositories of this machine."""
        url = parse_repo_url(change.repository)
        if change.forge == "github" and change.number:
            return self._github_forge(self.github(change.repository, user), url, user)
        if url.path is not None:
            return LocalRepository(url.path, self.open_git, unrestricted)
        return PlainGit(url)

    async def for_delivery(self, source: str, address: str, caller: ForgeAccess) -> Forge:
        """The forge that a workspace came from.

        `address` is the source as the user gave it, with credentials that are never stored.
        """
        reached = await self.resolve_url(address or source, caller)
        if api := self.find_github(reached, caller.user):
            return self._github_forge(api, reached, caller.user)
        url = parse_repo_url(source)
        if url.path is not None:
            return LocalRepository(url.path, self.open_git, caller.account or not caller.guarded)
        without_token = reached if self.tokens.is_github(reached) else None
        return PlainGit(reached if reached.address == url.address else url, without_token)

    def _github_forge(self, api: GitHub, url: RepoUrl, user: str) -> GitHubForge:
        return GitHubForge(api, user, self.tokens.is_own(url, user))

    async def resolve_url(self, source: str, caller: ForgeAccess) -> RepoUrl:
        """The address of a repository for git, with the credentials that apply.

        For a guarded caller, the address is pinned to allowed hosts and lacks the account's credentials
        unless the caller may use them.
        """
        url = replace(parse_repo_url(source), account=caller.account or not caller.guarded)
        if url.path is not None:
            # Commands may follow links, once. The path in a request was already resolved on arrival.
            if caller.guarded:
                return url
            return replace(from_path(await asyncio.to_thread(_resolve, url.path)), account=True)
        token = await asyncio.to_thread(self.tokens.find_token, url, caller.user)  # a command may give it
        if token is not None and url.credentials is None:
            url = replace(_to_https(url), credentials=(USER, await token()))
        return await self.allowed_hosts.pin(url) if caller.guarded else url

    def find_github(self, source: str | RepoUrl, user: str = "") -> GitHub | None:
        """The API of a repository; None if its host is no GitHub or no token is set."""
        url = parse_repo_url(source) if isinstance(source, str) else source
        token = self.tokens.find_token(url, user)
        if token is None or url.slug is None:
            return None
        socket = self.tokens.unix_socket
        gh = Gh(url.authority, token, self.environment, socket, self.retry_policy, self.make_home)
        return GitHub(gh, _to_https(url))

    def github(self, source: str, user: str = "") -> GitHub:
        """As `find_github`, but raises an error with advice instead of returning None."""
        found = self.find_github(source, user)
        if found is not None:
            return found
        url = parse_repo_url(source)
        if url.host and not self.tokens.is_github(url):
            same = [host for host in self.tokens.hosts if host.rpartition(":")[0] == url.host]
            advice = (
                f"github.hosts lists {same[0]}: use an address with that port."
                if same
                else f"If {url.authority} is a GitHub Enterprise Server, add it to github.hosts."
            )
            raise Conflict(f"{url} is not on a known GitHub, and only GitHub has pull requests. {advice}")
        name = token_name(url)
        raise Conflict(f"There is no token for {url}. Set one: hutch config set-secret {name}")


def _resolve(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links
        raise NotFound(f"There is no directory '{path}' on this machine.") from None


def _to_https(url: RepoUrl) -> RepoUrl:
    """The address that a token may be sent to: encrypted, or on this machine."""
    if (
        url.transport == "https"
        or (url.transport == "http" and url.host in LOOPBACK_HOSTS)
        or url.slug is None
    ):
        return url
    safe = parse_repo_url(f"https://{url.host}/{'/'.join(url.slug)}.git")
    return replace(safe, credentials=url.credentials, pinned=url.pinned, account=url.account)
