"""A server of Hutch with a GitHub of its own, for stories about pull requests."""

import asyncio
import copy
import json
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hutch import settings
from hutch.store.vault import Vault
from tests.deadline import DEADLINE_S
from tests.forge.github_server import HOST, Hub, github
from tests.forge.repositories import make_repository
from tests.forked_command import Forked
from tests.gateway.api_server import Api, serving
from tests.new_database import place_database
from tests.restored_directories import saved
from tests.sessions.session_server import call, cassette

TOKEN = "tok_installation_0123456789"
FILES = {"slug.py": "def slug(text):\n    return text\n", "README.md": "# Slugs\n"}
FIX = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower()\n")
MORE = call("write_file", path="slug.py", content="def slug(text):\n    return text.lower().strip()\n")
FINISH = call("finish", title="Slugs are lower case", summary="As they should be, says @ada. Fixes #7.")
FINISH_MORE = call("finish", title="Slugs are stripped", summary="And stripped.")


@dataclass
class Story:
    """The parts of a story."""

    place: Path
    hub: Hub
    started: list[Forked] = field(default_factory=list)

    @property
    def flags(self) -> dict[str, Any]:
        github = {
            "hosts": [f"{HOST}:{self.hub.port}"],
            "unix_socket": str(self.hub.socket),
            "max_retry_wait_s": 2,
        }
        return {"github": github, "server": {"public_url": "https://hutch.example.com"}}

    def keep(self, name: str = "github_enterprise_token", value: str = TOKEN) -> None:
        paths = settings.load(environ={"HUTCH_HOME": str(self.place / "home")}).paths
        Vault(paths.vault, paths.vault_keys).set(name, value)

    def forget(self, name: str = "github_enterprise_token") -> None:
        paths = settings.load(environ={"HUTCH_HOME": str(self.place / "home")}).paths
        Vault(paths.vault, paths.vault_keys).delete(name)

    def model(self, *replies: dict[str, Any], name: str = "c.json") -> str:
        return cassette(self.place / name, replies or [FIX, FINISH])

    def pulls(self, full_name: str = "acme/project") -> dict[int, dict[str, Any]]:
        return self.hub.repository(full_name).pulls

    def judge(self, number: int, login: str, event: str, body: str) -> None:
        """Review as a user on GitHub itself."""
        self.hub.api.judge(self.hub.repository("acme/project"), number, login, event, body)

    def start(self, words: list[str], **how: Any) -> Forked:
        """A process with a session of its own, which ends with the story also when a test fails."""
        self.started.append(Forked(words, stdout=subprocess.PIPE, start_new_session=True, **how))
        return self.started[-1]

    @contextmanager
    def saved(self) -> Iterator[Callable[[], None]]:
        """Save the state of Hutch and GitHub; call the result to restore it, with no server running."""
        state = copy.deepcopy(vars(self.hub.state))
        with saved(self.place / "home", self.hub.state.root) as files:

            def restore() -> None:
                files.restore()
                vars(self.hub.state).update(copy.deepcopy(state))
                for seen in (self.hub.requests, self.hub.shown, self.hub.faults):
                    seen.clear()

            yield restore

    @asynccontextmanager
    async def server(self, **more: Any) -> AsyncIterator[Api]:
        flags = {**self.flags, **more, "server": {**self.flags["server"], **more.get("server", {})}}
        async with serving(self.place, **flags) as api:
            yield api


@contextmanager
def story(place: Path, files: dict[str, str] | None = None, **given: Any) -> Iterator[Story]:
    """A GitHub with one repository that Hutch may push to."""
    make_repository(place / "made", files or FILES, branch=given.get("default", "main"))
    with github(place) as hub:
        people = {"hutch-bot": "write", "ada": "write"}
        hub.state.add("acme/project", place / "made", **{"permissions": people, **given})
        hub.state.tokens[TOKEN] = "hutch-bot"
        place_database(place / "home" / "data")
        made = Story(place, hub)
        made.keep()
        try:
            yield made
        finally:
            for process in made.started:
                if process.poll() is None:
                    process.kill_session()


async def code(api: Api, story: Story, **asked: Any) -> dict[str, Any]:
    """`POST /api/code`, to its end."""
    wanted = {
        "repoUrl": story.hub.url("acme/project"),
        "prompt": "Make slugs lower case.",
        **({} if "model" in asked else {"model": story.model()}),
        **asked,
    }
    async with asyncio.timeout(DEADLINE_S):
        answered = await api.post(
            "/api/code", json=wanted, headers={"Accept": "application/json"}, timeout=DEADLINE_S
        )
    assert answered.status_code == 200, answered.text
    return dict(answered.json())


def everything_below(place: Path) -> Iterator[tuple[Path, bytes]]:
    """All files and their content."""
    for path in place.rglob("*"):
        if path.is_file() and not path.is_symlink():
            yield path, path.read_bytes()


def dumped(value: Any) -> str:
    return json.dumps(value, default=str)
