"""The files that a server's account can reach, and for which users."""

from pathlib import Path

import pytest

from tests.deadline import DEADLINE_S
from tests.gateway.api_server import Api, serving
from tests.sessions.session_server import call
from tests.stories.github_story import FINISH, FIX, TOKEN, Story, story

pytestmark = pytest.mark.anyio

READ = call("bash", command="cat slug.py")


async def submit(api: Api, setup: Story) -> tuple[str, str]:
    answered = await api.post(
        "/api/code",
        json={"repoUrl": setup.hub.url("acme/project"), "prompt": "Make slugs lower case."},
        headers={"Accept": "application/json"},
        timeout=DEADLINE_S,
    )
    found = answered.json()
    return found["outcome"], found["message"]


async def test_private_repositories_of_the_account_are_for_owners_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server's account has a credential helper that reaches a private repository; no token is set."""
    with story(tmp_path, private=True) as setup:
        home = tmp_path / "account"
        home.mkdir()
        (home / ".gitconfig").write_text("[credential]\n\thelper = store\n")
        credentials = f"http://owner:{TOKEN}@127.0.0.1%3a{setup.hub.port}\n"
        (home / ".git-credentials").write_text(credentials)
        monkeypatch.setenv("HOME", str(home))
        monkeypatch.setenv("GH_ENTERPRISE_TOKEN", TOKEN)
        replies = (READ, FIX, FINISH)
        server = {"repository_hosts": ["127.0.0.1"]}
        async with serving(tmp_path / "server", replies=replies, server=server) as api:
            outcome, why = await submit(await api.as_user("bob"), setup)
            assert (outcome, setup.hub.shown - {""}) == ("failed", set())
            assert "is private" in why and "Only owners may use" in why
            assert setup.hub.repository("acme/project").branches() == ["main"]
            assert (await submit(api, setup))[0] == "done"
        assert len(setup.hub.repository("acme/project").branches()) == 2
