"""An App signs its identity, and caches its tokens until shortly before they expire."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

from hutch.domain.errors import BadRequest, Denied, NotFound, Unavailable
from hutch.forge.github_app import GitHubApp
from tests.forge.github_server import HOST, Hub, github

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def key() -> RSAKey:
    return RSAKey.generate_key(2048)


@pytest.fixture
def hub(tmp_path: Path, key: RSAKey) -> Iterator[Hub]:
    with github(tmp_path) as hub:
        hub.api.app_id, hub.api.app_key, hub.api.installed = "123", key, {"acme/project"}
        yield hub


def app(hub: Hub, key: RSAKey, app_id: str = "123") -> GitHubApp:
    return GitHubApp(HOST, app_id, key.as_pem(private=True).decode(), str(hub.socket))


async def test_a_token_is_cached_until_it_is_about_to_expire(hub: Hub, key: RSAKey) -> None:
    mine = app(hub, key)
    one, two = await mine.token("acme/project"), await mine.token("acme/project")
    assert one == two == hub.api.minted[0] and len(hub.api.minted) == 1
    hub.api.valid_s = 200
    short = app(hub, key)
    assert await short.token("acme/project") != await short.token("acme/project")


async def test_refusals_of_an_app(hub: Hub, key: RSAKey) -> None:
    with pytest.raises(NotFound, match="not installed on acme/other"):
        await app(hub, key).token("acme/other")
    with pytest.raises(Denied, match=r"github\.app_id"):
        await app(hub, key, "999").token("acme/project")
    with pytest.raises(Denied):
        await app(hub, RSAKey.generate_key(2048)).token("acme/project")
    with pytest.raises(BadRequest, match="no private key"):
        await GitHubApp(HOST, "123", "nonsense", str(hub.socket)).token("acme/project")
    hub.fault("GET /repos", 502)
    with pytest.raises(Unavailable):
        await app(hub, key).token("acme/project")


@pytest.mark.parametrize("said", [b"[]", b'{"id": null}', b'{"id": 1, "token": "t", "expires_at": "soon"}'])
async def test_an_answer_of_another_kind(hub: Hub, key: RSAKey, said: bytes) -> None:
    for pattern in ("installation$", "access_tokens$"):
        hub.fault(pattern, 200, content=said)
    with pytest.raises(Unavailable, match="unexpected response"):
        await app(hub, key).token("acme/project")


def test_the_key_is_not_shown(key: RSAKey) -> None:
    assert "PRIVATE" not in repr(GitHubApp(HOST, "1", key.as_pem(private=True).decode()))
