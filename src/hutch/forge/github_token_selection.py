"""Chooses the token for a repository on GitHub."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from hutch.domain.hutch_secret_names import ENTERPRISE_VARIABLES, GITHUB_VARIABLES
from hutch.forge.gh_command import GITHUB, GetToken
from hutch.forge.git_errors import token_secret_name
from hutch.forge.repo_url import RepoUrl
from hutch.system.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from hutch.forge.github_app import GitHubApp

ReadSecrets = Callable[[Collection[str]], Mapping[str, str]]  # returns the named secrets that are set

_apps: dict[tuple[str, str, str], "GitHubApp"] = {}  # caches their tokens


@dataclass(frozen=True, slots=True)
class _Token:
    source: str
    secret: str = field(repr=False)  # the token, or the App's private key
    app_id: str = ""


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of an installation, for each GitHub that it knows."""

    secrets: ReadSecrets
    hosts: tuple[str, ...] = ()  # in addition to github.com, with their ports
    app_id: str = ""
    app_host: str = GITHUB
    unix_socket: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)

    def is_github(self, url: RepoUrl) -> bool:
        """True if a repository is on a GitHub. The port must be the listed one."""
        return url.slug is not None and url.authority in (GITHUB, *self.hosts)

    def find_token(self, url: RepoUrl, user: str) -> GetToken | None:
        """A function that returns the token for a repository; None without one."""
        found = self._find(url, user)
        if found is None:
            return None
        if found.app_id:
            app = _app(url.authority, found.app_id, found.secret, self.unix_socket)
            full_name = "/".join(url.slug or ())

            async def by_app() -> str:
                return await app.token(full_name)

            return by_app

        async def known() -> str:
            return found.secret

        return known

    def source(self, url: RepoUrl, user: str = "") -> str:
        """Where the token for a repository comes from, for users; empty without one."""
        found = self._find(url, user)
        return found.source if found else ""

    def is_own(self, url: RepoUrl, user: str) -> bool:
        """True if the token is the user's own, as it always is on the command line."""
        own = own_token_name(url, user)
        return not user or bool(self.secrets({own}).get(own, "").strip())

    def _find(self, url: RepoUrl, user: str) -> _Token | None:
        """The first of: in the address, the user's own, an App's, the installation's secret, and the
        environment of this process, which is the server's for its users."""
        if not self.is_github(url):
            return None
        name = token_name(url)
        own = own_token_name(url, user)
        names = {name, own, "github_app_key"} if user else {name, "github_app_key"}
        stored = {each: value.strip() for each, value in self.secrets(names).items()}
        if url.credentials and (password := url.credentials[1] or url.credentials[0]):
            return _Token("the address", password)
        if stored.get(own):
            return _Token(f"the secret {own}", stored[own])
        is_for_app = self.app_id and url.authority == self.app_host and not url.credentials
        if is_for_app and stored.get("github_app_key"):
            return _Token(f"the GitHub App {self.app_id}", stored["github_app_key"], self.app_id)
        if stored.get(name):
            return _Token(f"the secret {name}", stored[name])
        return self._from_environment(url.host)

    def _from_environment(self, host: str) -> _Token | None:
        """The token in the environment, as gh finds it."""
        names = GITHUB_VARIABLES if host == GITHUB else ENTERPRISE_VARIABLES
        found = ((name, self.environment.get(name, "").strip()) for name in names)
        return next(
            (_Token(f"the environment variable {name}", value) for name, value in found if value), None
        )


def token_name(url: RepoUrl) -> str:
    """The secret that holds the installation's token for a host."""
    return token_secret_name(url.host)


def own_token_name(url: RepoUrl, user: str) -> str:
    """The secret that holds a user's own token."""
    return f"{token_name(url)}_{user}"


def _app(host: str, app_id: str, key: str, socket: str) -> "GitHubApp":
    from hutch.forge.github_app import GitHubApp

    found = _apps.get((host, app_id, key))
    if found is None:
        found = _apps[host, app_id, key] = GitHubApp(host, app_id, key, socket)
    return found
