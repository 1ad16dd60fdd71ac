"""Sessions that the tests of the web app open."""

import asyncio
import json
from pathlib import Path

import httpx

from tests.deadline import DEADLINE_S

SAMPLE = Path(__file__).parents[2] / "samples" / "slugs"
FILES = {name: (SAMPLE / name).read_text() for name in ("slugs.py", "test_slugs.py")}


def cassette(place: Path, replies: list[object]) -> str:
    """The name of a scripted model with these replies."""
    file = place / "cassette.json"
    file.write_text(json.dumps({"replies": replies}))
    return f"scripted:{file}"


async def new_session(api: httpx.AsyncClient, **body: object) -> str:
    answer = await api.post("/sessions", json={"files": FILES, **body})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


async def until_prepared(api: httpx.AsyncClient, session: str) -> None:
    """Return when a session has its files. Until then a page that asks for them is refused, and retries."""
    async with asyncio.timeout(DEADLINE_S), api.stream("GET", f"/sessions/{session}/events/stream") as events:
        async for line in events.aiter_lines():
            if line == "event: session.prepared":
                return


async def until_idle(api: httpx.AsyncClient, session: str) -> None:
    """Return when the run of a session has ended."""
    async with api.stream("GET", f"/sessions/{session}/events/stream") as events:
        async for line in events.aiter_lines():
            if line == "event: run.ended":
                return


async def write(api: httpx.AsyncClient, session: str, path: str, text: str) -> None:
    """Write a file, once the session is ready."""
    await until_prepared(api, session)
    answer = await api.put(f"/sessions/{session}/files/{path}", content=text.encode())
    assert answer.status_code < 300, answer.text
