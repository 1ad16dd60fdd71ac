"""Checks for `hutch doctor` whether Hutch can open pull requests on GitHub, without contacting GitHub."""

from hutch.forge.gh_command import GITHUB
from hutch.forge.gh_login_detection import is_logged_in
from hutch.forge.github_token_selection import Tokens, token_name
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.machine_checks import Check


def check_github(tokens: Tokens) -> Check:
    """Report the source of the token for pull requests, for each known GitHub host."""
    # A token is for a host; the repository makes no difference here.
    urls = [parse_repo_url(f"https://{host}/owner/name") for host in (GITHUB, *tokens.hosts)]
    sources = {url.authority: tokens.source(url) for url in urls}
    lines = [
        f"{host}: pull requests are opened with {source} (not tested)"
        if source
        else f"{host}: no token, so no pull requests can be opened"
        for host, source in sources.items()
    ]
    if any(sources.values()):
        return Check("github", "ok", "\n".join(lines))
    name = token_name(urls[-1])  # a host from the settings takes precedence
    fix = f"hutch config set-secret {name}"
    if len(urls) == 1:
        fix += "\nor set GH_TOKEN in the environment"
    if is_logged_in(urls[-1].authority, tokens.environment):
        lines.append("gh is logged in there, but Hutch uses only its own token")
        fix = f"gh auth token --hostname {urls[-1].authority} | hutch config set-secret {name}"
    return Check("github", "warn", "\n".join(lines), fix)
