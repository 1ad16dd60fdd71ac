"""gh runs with a minimal environment, in its own directory that is removed afterwards."""

# ruff: noqa: ASYNC240 (files of a test block nobody)

import os
import stat
from pathlib import Path

import pytest

from hutch.domain.errors import Unavailable
from hutch.forge.gh_command import Gh, GitHubFailed, RetryPolicy
from tests.forge.github_server import HOST, github

pytestmark = pytest.mark.anyio

SHOW = """#!/bin/sh
echo "$PWD" > {place}/seen
stat -c %a "$PWD" >> {place}/seen
cat "$GH_CONFIG_DIR/config.yml" >> {place}/seen
env | sort > {place}/environment
echo "the token is $GH_TOKEN" >&2
exit 3
"""


async def token_of() -> str:
    return "tok_0123456789"


async def test_where_it_runs_and_what_it_says(tmp_path: Path) -> None:
    program = tmp_path / "gh"
    program.write_text(SHOW.format(place=tmp_path))
    program.chmod(0o755)
    gh = Gh("github.com", token_of, {"PATH": f"{tmp_path}:/usr/bin:/bin", "SECRET": "x"}, "/run/api.sock")
    code, printed, said = await gh.run("anything")
    assert (code, printed, said) == (3, b"", "the token is …\n")
    home, mode, *config = (tmp_path / "seen").read_text().splitlines()
    assert (mode, Path(home).exists()) == (f"{stat.S_IRWXU:o}", False)
    assert "http_unix_socket: api.sock" in config  # of a relay, in the directory that it runs in
    assert "tok_0123456789" not in (tmp_path / "seen").read_text()
    assert "SECRET" not in (tmp_path / "environment").read_text()


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_a_limit_stopped_is_retried(tmp_path: Path, method: str) -> None:
    with github(tmp_path) as hub:
        hub.state.tokens[await token_of()] = "ada"
        retry_policy = RetryPolicy(max_wait_s=2.5, first_delay_s=0.01)
        gh = Gh(HOST, token_of, {"PATH": os.defpath}, str(hub.socket), retry_policy)
        hub.fault(".", 429, headers={"Retry-After": "1"}, times=1)
        with pytest.raises(GitHubFailed) as failed:
            await gh.api(method, "repos/no/such", {} if method == "POST" else None)
        assert (failed.value.status, len(hub.requests)) == (404, 2)
        hub.requests.clear()
        hub.fault(".", 429, headers={"Retry-After": "1"})
        with pytest.raises(GitHubFailed, match="is used up until"):
            await gh.api(method, "repos/no/such", {} if method == "POST" else None)
        assert len(hub.requests) == 3  # the waits of one request are bounded together


async def test_a_request_that_may_have_succeeded_is_not_retried(tmp_path: Path) -> None:
    with github(tmp_path) as hub:
        gh = Gh(HOST, token_of, {"PATH": os.defpath}, str(hub.socket), RetryPolicy(first_delay_s=0.01))
        hub.fault(".", 502)
        for method, times in (("POST", 1), ("GET", 4)):
            hub.requests.clear()
            with pytest.raises(GitHubFailed, match="Retry later"):
                await gh.api(method, "repos/a/b")
            assert len(hub.requests) == times


async def test_it_may_not_be_installed(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="apt-get install -y gh"):
        await Gh("github.com", token_of, {"PATH": str(tmp_path)}).run("api", "user")
