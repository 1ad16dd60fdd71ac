"""Checks for `hutch doctor` whether Hutch can open pull requests on GitHub, without contacting GitHub."""

import shutil
import subprocess

from hutch.app.forges import tokens_of
from hutch.domain.secret_names import TOKEN_VARIABLES
from hutch.forge.gh import GITHUB
from hutch.forge.github_tokens import token_name
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.machine_checks import Check
from hutch.settings import LoadedSettings, user_environment

TIMEOUT_S = 2.0


def check_github(loaded: LoadedSettings) -> Check:
    """Report the source of the token for pull requests, for each known GitHub host."""
    # A token is for a host; the repository makes no difference here.
    urls = [parse_repo_url(f"https://{host}/owner/name") for host in (GITHUB, *loaded.settings.github.hosts)]
    tokens = tokens_of(loaded)
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
    if gh_is_logged_in(urls[-1].authority):
        lines.append("gh is logged in there, but Hutch uses only its own token")
        fix = f"gh auth token --hostname {urls[-1].authority} | hutch config set-secret {name}"
    return Check("github", "warn", "\n".join(lines), fix)


def gh_is_logged_in(host: str) -> bool:
    """Whether gh has a token of its own for a host. It reads its files and contacts no server."""
    program = shutil.which("gh")
    if program is None:
        return False
    environment = {name: value for name, value in user_environment().items() if name not in TOKEN_VARIABLES}
    try:
        ran = subprocess.run(
            [program, "auth", "token", "--hostname", host],
            env=environment,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return ran.returncode == 0 and bool(ran.stdout.strip())
