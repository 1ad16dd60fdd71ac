"""Which token Hutch uses for a GitHub, and where it comes from."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hutch.app.models import secrets_of
from hutch.forge.failure import secret_for
from hutch.forge.gh import GITHUB, TokenOf
from hutch.forge.repo_url import RepoUrl
from hutch.settings import Loaded, user_environment

if TYPE_CHECKING:
    from hutch.forge.github_app import GitHubApp

__all__ = ["is_forge", "token_name", "token_of"]

_apps: dict[tuple[str, str, str], "GitHubApp"] = {}  # their tokens are worth keeping


def is_forge(loaded: Loaded, url: RepoUrl) -> bool:
    """Whether a repository is on a GitHub. A token goes to the port that is listed, and to no other."""
    return url.slug is not None and url.authority in (GITHUB, *loaded.settings.github.hosts)


def token_of(loaded: Loaded, url: RepoUrl, user: str) -> TokenOf | None:
    """Where the token for a repository comes from: the user's own, an App's, or the installation's."""
    github = loaded.settings.github
    if url.slug is None or not is_forge(loaded, url):
        return None
    name = token_name(url)
    own = f"{name}_{user}"
    wanted = {name, own, "github_app_key"} if user else {name, "github_app_key"}
    kept = {each: value.strip() for each, value in secrets_of(loaded, wanted).items()}
    if (
        github.app_id
        and url.authority == github.app_host
        and kept.get("github_app_key")
        and not (kept.get(own) or url.credentials)
    ):
        app = _app(url.authority, github.app_id, kept["github_app_key"], github.unix_socket or "")
        full_name = "/".join(url.slug)

        async def by_app() -> str:
            return await app.token(full_name)

        return by_app
    written = (url.credentials[1] or url.credentials[0]) if url.credentials else ""
    found = written or kept.get(own) or kept.get(name) or ("" if user else _from_environment(url.host))
    if not found:
        return None

    async def known() -> str:
        return found

    return known


def token_name(url: RepoUrl) -> str:
    """The secret that holds the installation's token for a host."""
    return secret_for(url.host)


def _from_environment(host: str) -> str:
    """The token of who runs a command, where gh would find it."""
    environment: Mapping[str, str] = user_environment()
    names = ("GH_TOKEN", "GITHUB_TOKEN") if host == GITHUB else ("GH_ENTERPRISE_TOKEN",)
    return next((environment[name].strip() for name in names if environment.get(name, "").strip()), "")


def _app(host: str, app_id: str, key: str, socket: str) -> "GitHubApp":
    from hutch.forge.github_app import GitHubApp

    found = _apps.get((host, app_id, key))
    if found is None:
        found = _apps[host, app_id, key] = GitHubApp(host, app_id, key, socket)
    return found
