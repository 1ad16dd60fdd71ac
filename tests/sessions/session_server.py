"""A real host on a directory of its own: real jails, a real log, the scripted model."""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from hutch.app.local_sessions import Local
from hutch.app.server import open_server
from hutch.domain.events import Event
from hutch.domain.ids import SessionId, UserId
from hutch.domain.user import Caller, User, scopes_of
from hutch.flows import sessions
from hutch.gateway.gateway_context import Server
from hutch.settings import LoadedSettings, load
from hutch.store.sessions import Sessions
from hutch.store.users import Users
from tests.deadline import DEADLINE_S
from tests.new_database import place_database

BUG = {"slug.py": "def slug(text):\n    return text\n"}


def loaded(home: Path, **settings: Any) -> LoadedSettings:
    environment = {"HUTCH_HOME": str(home), "HOME": str(home)}
    environment |= {f"HUTCH_{name.upper()}": str(value) for name, value in settings.items()}
    return load(environ=environment)


def repository(place: Path, files: dict[str, str] | None = None) -> Path:
    """A git repository with one commit."""
    place.mkdir(parents=True)
    for name, text in (files or BUG).items():
        (place / name).parent.mkdir(parents=True, exist_ok=True)
        (place / name).write_text(text)
    git = ["git", "-C", str(place), "-c", "user.name=T", "-c", "user.email=t@example.com"]
    subprocess.run([*git, "init", "-q", "-b", "main"], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-q", "-m", "Begin"], check=True)
    return place


def cassette(place: Path, replies: Sequence[dict[str, Any]]) -> str:
    """The name of a scripted model that says this."""
    place.write_text(json.dumps({"replies": list(replies)}))
    return f"scripted:{place}"


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"calls": [{"tool": tool, "args": arguments}]}


@asynccontextmanager
async def serving(home: Path, **settings: Any) -> AsyncIterator[Server]:
    chosen = loaded(home, **settings)
    place_database(chosen.paths.data)
    async with open_server(chosen) as server:
        yield server


async def owner(server: Server, name: str = "ada", role: Any = "owner") -> Caller:
    found = [user for user in await Users(server.rows).list() if user.name == name]
    user = found[0] if found else await Users(server.rows).add(name, role)
    return Caller(user, scopes_of(user.role), "local", "test")


def nobody() -> Caller:
    return Caller(User(UserId("usr_none"), "none", "member", 0), scopes_of("member"), "local", "test")


async def until(server: Server | Local, session_id: SessionId, type_: str, *, after: int = 0) -> list[Event]:
    """The events after a number, up to the first of a type."""
    found: list[Event] = []
    async with asyncio.timeout(DEADLINE_S), aclosing(server.log.follow(session_id, after=after)) as entries:
        async for entry in entries:
            assert isinstance(entry.event, Event)
            found.append(entry.event)
            if entry.event.type == type_:
                return found
    raise AssertionError(f"no {type_} in {[event.type for event in found]}")


async def state(server: Server, who: Caller, session_id: SessionId, *wanted: str) -> str:
    """Wait until a session is in one of these states."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            now = (await Sessions(server.rows).get(session_id)).state
            if now in wanted:
                return (await sessions.show(server.services, who, session_id)).session.state
            await asyncio.sleep(0.02)
