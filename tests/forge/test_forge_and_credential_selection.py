"""The choice of forge, token and connection."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hutch.app.forges import forges_of
from hutch.domain.errors import BadRequest, Conflict, Denied
from hutch.forge.forge_and_credential_selection import ForgeAccess
from hutch.forge.github_repository_api import GitHub
from hutch.forge.github_token_selection import Tokens
from hutch.forge.repo_url import parse_repo_url
from hutch.jail.pid_stamped_names import own_mark
from hutch.settings import LoadedSettings, load
from hutch.store.vault import Vault

pytestmark = pytest.mark.anyio


def loaded(home: Path, secrets: dict[str, str] | None = None, **github: Any) -> LoadedSettings:
    made = load({"github": github}, environ={"HUTCH_HOME": str(home)})
    for name, value in (secrets or {}).items():
        Vault(made.paths.vault, made.paths.vault_keys).set(name, value)
    return made


async def token(made: LoadedSettings, source: str, user: str = "usr_ada") -> str | None:
    found = forges_of(made).find_github(source, user)
    return await found.gh.token() if found else None


async def test_a_token_goes_to_its_own_host_and_to_no_other(tmp_path: Path) -> None:
    secrets = {"github_token": "for-github-com", "github_enterprise_token": "for-enterprise"}
    made = loaded(tmp_path, secrets, hosts=["ghe.example.com"])
    assert await token(made, "https://github.com/acme/project") == "for-github-com"
    assert await token(made, "git@github.com:acme/project.git") == "for-github-com"
    assert await token(made, "https://ghe.example.com/acme/project") == "for-enterprise"
    for other in (
        "https://github.com.evil.example/a/b",
        "https://gitlab.com/a/b",
        "https://notgithub.com/a/b",
    ):
        assert await token(made, other) is None
    assert await token(made, "https://github.com/acme/group/project") is None
    assert await token(made, str(tmp_path)) is None


async def test_a_users_own_token_comes_before_the_installations(tmp_path: Path) -> None:
    made = loaded(tmp_path, {"github_token": "everybodys-token", "github_token_usr_ada": "token-of-ada"})
    assert await token(made, "https://github.com/acme/project", "usr_ada") == "token-of-ada"
    assert await token(made, "https://github.com/acme/project", "usr_bob") == "everybodys-token"


def test_users_of_a_server_get_the_token_in_its_environment_if_no_secret_is_set() -> None:
    def tokens(secrets: dict[str, str], **environment: str) -> Tokens:
        return Tokens(lambda _: secrets, ("ghe.example.com",), environment=environment)

    hub, enterprise = (parse_repo_url(f"https://{host}/a/b") for host in ("github.com", "ghe.example.com"))
    found = tokens({}, GITHUB_TOKEN="in-environment", GITHUB_ENTERPRISE_TOKEN="for-enterprise")
    assert found.source(hub, "usr_ada") == "the environment variable GITHUB_TOKEN"
    assert found.source(enterprise, "usr_ada") == "the environment variable GITHUB_ENTERPRISE_TOKEN"
    stored = tokens({"github_token": "stored"}, GITHUB_TOKEN="in-environment")
    assert stored.source(hub, "usr_ada") == "the secret github_token"
    assert tokens({}, GITHUB_TOKEN=" ").find_token(hub, "usr_ada") is None


def test_the_source_of_a_token_is_named_and_the_token_is_not(tmp_path: Path) -> None:
    def source(made: LoadedSettings, address: str, user: str = "usr_ada") -> str:
        return forges_of(made).tokens.source(parse_repo_url(address), user)

    project = "https://github.com/acme/project"
    assert source(loaded(tmp_path), project) == ""
    made = loaded(tmp_path, {"github_token": "everybodys-token", "github_app_key": "a-key"})
    assert source(made, project) == "the secret github_token"
    with_app = loaded(tmp_path, app_id="12")
    assert source(with_app, project) == "the GitHub App 12"
    assert source(with_app, "https://ada:word@github.com/acme/project") == "the address"
    made = loaded(tmp_path, {"github_token_usr_ada": "token-of-ada"}, app_id="12")
    assert source(made, project) == "the secret github_token_usr_ada"
    assert source(made, "https://gitlab.com/a/b") == source(made, str(tmp_path)) == ""


async def test_a_token_does_not_go_where_others_read_along(tmp_path: Path) -> None:
    made = loaded(tmp_path, {"github_token": "for-github-com"})
    for source in ("http://github.com/acme/project", "ssh://git@github.com/acme/project"):
        url = await forges_of(made).resolve_url(source, ForgeAccess("usr_ada"))
        assert (url.address, url.transport) == ("https://github.com/acme/project.git", "https")
        assert url.credentials == ("x-access-token", "for-github-com")
    other = await forges_of(made).resolve_url("http://example.com/a/b", ForgeAccess())
    assert (other.address, other.credentials) == ("http://example.com/a/b", None)


async def test_connections_on_behalf_of_others_are_guarded(tmp_path: Path) -> None:
    with pytest.raises(Denied):
        await forges_of(loaded(tmp_path)).resolve_url("http://127.0.0.1/a/b", ForgeAccess(guarded=True))
    assert (await forges_of(loaded(tmp_path)).resolve_url("http://127.0.0.1/a/b", ForgeAccess())).pinned == ()


async def test_an_enterprise_server_is_used_on_the_listed_port_and_on_no_other(
    tmp_path: Path,
) -> None:
    made = loaded(tmp_path, {"github_enterprise_token": "for-enterprise"}, hosts=["ghe.example.com:8443"])
    found = forges_of(made).find_github("https://ghe.example.com:8443/acme/project", "usr_ada")
    assert isinstance(found, GitHub) and found.gh.host == "ghe.example.com:8443"
    assert (await found._remote("acme/copy")).address == "https://ghe.example.com:8443/acme/copy.git"
    for other in ("https://ghe.example.com/acme/project", "https://ghe.example.com:9443/acme/project"):
        assert await token(made, other) is None
        with pytest.raises(Conflict, match=r"github\.hosts"):
            forges_of(made).github(other)
    usual = loaded(tmp_path, hosts=["ghe.example.com:443"])
    assert usual.settings.github.hosts == ("ghe.example.com",)
    assert await token(usual, "https://ghe.example.com/acme/project") == "for-enterprise"


async def test_on_this_machine_too_a_token_goes_to_the_port_that_is_listed(tmp_path: Path) -> None:
    secrets = {"github_token": "for-github-com", "github_enterprise_token": "for-enterprise"}
    made = loaded(tmp_path, secrets, hosts=["127.0.0.1:8080"])
    assert await token(made, "http://127.0.0.1:8080/acme/project") == "for-enterprise"
    for other in ("http://127.0.0.1:8081/acme/project", "http://127.0.0.1/acme/project"):
        assert await token(made, other) is None
        assert (await forges_of(made).resolve_url(other, ForgeAccess())).credentials is None
    assert await token(made, "http://github.com:8080/acme/project") is None


@pytest.mark.parametrize(
    "host", ["ghe.example.com:0", "ghe.example.com:99999", "https://ghe.example.com", "*.a:1"]
)
def test_an_invalid_forge_host_is_refused_when_it_is_set(tmp_path: Path, host: str) -> None:
    with pytest.raises(BadRequest, match="with its port unless that is 443"):
        loaded(tmp_path, hosts=[host])


def test_leftover_files_of_a_killed_gh_are_removed_by_the_next_process(tmp_path: Path) -> None:
    found = forges_of(loaded(tmp_path, {"github_token": "t"})).github("https://github.com/ada/shop")
    assert isinstance(found, GitHub)
    home = found.gh.make_home()
    assert home.name.startswith(f"hutch-gh-{own_mark()}-") and home.stat().st_mode & 0o777 == 0o700
    home.rmdir()
    dead = home.with_name(f"hutch-gh-{os.getpid()}.12-left")  # of a process that had our number before
    dead.mkdir()
    script = "from hutch.jail.pid_stamped_names import make_directory; make_directory('hutch-gh').rmdir()"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert not dead.exists()
