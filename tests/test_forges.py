"""Which forge, whose token, and over which way."""

from pathlib import Path
from typing import Any

import pytest

from hutch.app.forges import forge_of, reachable
from hutch.domain.errors import Denied
from hutch.forge.github import GitHub
from hutch.settings import Loaded, load
from hutch.store.vault import Vault

pytestmark = pytest.mark.anyio


def loaded(home: Path, secrets: dict[str, str] | None = None, **github: Any) -> Loaded:
    made = load({"github": github}, environ={"HUTCH_HOME": str(home)})
    for name, value in (secrets or {}).items():
        Vault(made.paths.vault, made.paths.vault_keys).set(name, value)
    return made


async def token(made: Loaded, source: str, user: str = "usr_ada") -> str | None:
    found = forge_of(made, source, user=user)
    return await found.gh.token() if isinstance(found, GitHub) else None


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


async def test_a_token_does_not_go_where_others_read_along(tmp_path: Path) -> None:
    made = loaded(tmp_path, {"github_token": "for-github-com"})
    for source in ("http://github.com/acme/project", "ssh://git@github.com/acme/project"):
        url = await reachable(made, source, user="usr_ada", guarded=False)
        assert (url.shown, url.transport) == ("https://github.com/acme/project.git", "https")
        assert url.credentials == ("x-access-token", "for-github-com")
    other = await reachable(made, "http://example.com/a/b", guarded=False)
    assert (other.shown, other.credentials) == ("http://example.com/a/b", None)


async def test_what_is_reached_for_others_is_guarded(tmp_path: Path) -> None:
    with pytest.raises(Denied):
        await reachable(loaded(tmp_path), "http://127.0.0.1/a/b")
    assert (await reachable(loaded(tmp_path), "http://127.0.0.1/a/b", guarded=False)).pinned == ()
