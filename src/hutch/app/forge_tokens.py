"""Which token Hutch uses for a GitHub, and where it comes from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hutch.app.models import secrets_of
from hutch.forge.failure import secret_for
from hutch.forge.gh import GITHUB, TokenOf
from hutch.forge.repo_url import RepoUrl
from hutch.settings import Loaded, user_environment

if TYPE_CHECKING:
    from hutch.forge.github_app import GitHubApp


_apps: dict[tuple[str, str, str], "GitHubApp"] = {}  # their tokens are worth keeping


def is_forge(loaded: Loaded, url: RepoUrl) -> bool:
    """Whether a repository is on a GitHub. A token goes to the port that is listed, and to no other."""
    return url.slug is not None and url.authority in (GITHUB, *loaded.settings.github.hosts)


def token_of(loaded: Loaded, url: RepoUrl, user: str) -> TokenOf | None:
    """A function that returns the token for a repository; None where there is no token."""
    found = _find(loaded, url, user)
    if found is None:
        return None
    if found.app_id:
        app = _app(url.authority, found.app_id, found.secret, loaded.settings.github.unix_socket or "")
        full_name = "/".join(url.slug or ())

        async def by_app() -> str:
            return await app.token(full_name)

        return by_app

    async def known() -> str:
        return found.secret

    return known


def token_source(loaded: Loaded, url: RepoUrl, user: str = "") -> str:
    """Where the token for a repository comes from, in words for people; empty where there is no token."""
    found = _find(loaded, url, user)
    return found.source if found else ""


@dataclass(frozen=True, slots=True)
class _Token:
    source: str
    secret: str = field(repr=False)  # the token, or the key of the App that gets one
    app_id: str = ""


def _find(loaded: Loaded, url: RepoUrl, user: str) -> _Token | None:
    """The first of these that exists: in the address, the user's own, an App's, the installation's, and on
    the command line that of the environment."""
    if not is_forge(loaded, url):
        return None
    github, name = loaded.settings.github, token_name(url)
    own = f"{name}_{user}"
    wanted = {name, own, "github_app_key"} if user else {name, "github_app_key"}
    kept = {each: value.strip() for each, value in secrets_of(loaded, wanted).items()}
    if url.credentials and (written := url.credentials[1] or url.credentials[0]):
        return _Token("the address", written)
    if kept.get(own):
        return _Token(f"the secret {own}", kept[own])
    is_for_app = github.app_id and url.authority == github.app_host and not url.credentials
    if is_for_app and kept.get("github_app_key"):
        return _Token(f"the GitHub App {github.app_id}", kept["github_app_key"], github.app_id or "")
    if kept.get(name):
        return _Token(f"the secret {name}", kept[name])
    return None if user else _from_environment(url.host)


def token_name(url: RepoUrl) -> str:
    """The secret that holds the installation's token for a host."""
    return secret_for(url.host)


def _from_environment(host: str) -> _Token | None:
    """The token of who runs a command, where gh would find it."""
    environment: Mapping[str, str] = user_environment()
    names = ("GH_TOKEN", "GITHUB_TOKEN") if host == GITHUB else ("GH_ENTERPRISE_TOKEN",)
    found = ((name, environment.get(name, "").strip()) for name in names)
    return next((_Token(f"the environment variable {name}", value) for name, value in found if value), None)


def _app(host: str, app_id: str, key: str, socket: str) -> "GitHubApp":
    from hutch.forge.github_app import GitHubApp

    found = _apps.get((host, app_id, key))
    if found is None:
        found = _apps[host, app_id, key] = GitHubApp(host, app_id, key, socket)
    return found
