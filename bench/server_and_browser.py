"""A real `hutch up` and a browser that is logged in to it, for figures of the web app."""

import asyncio
import json
import os
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from playwright.async_api import BrowserContext, async_playwright

CHROMIUM = "/usr/bin/chromium-headless-shell"
HUTCH = Path(__file__).parents[1] / ".venv/bin/hutch"
WIDE: Any = {"width": 1280, "height": 800}
TIMEOUT_S = 300.0
COOKIE = "cookie"


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    home: Path
    url: str

    @property
    def api(self) -> httpx.AsyncClient:
        token = (self.home / "data/keys/local.token").read_text()
        headers = {"Authorization": f"Bearer {token}"}
        url = f"{self.url}/api/v1"
        return httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=TIMEOUT_S)

    async def new_session(self, **body: object) -> str:
        """A session that is ready."""
        async with self.api as api:
            answer = await api.post("/sessions", json=body)
            assert answer.status_code == 201, answer.text
            session = str(answer.json()["id"])
            async with asyncio.timeout(TIMEOUT_S):
                async with api.stream("GET", f"/sessions/{session}/events/stream") as events:
                    async for line in events.aiter_lines():
                        if line == "event: session.prepared":
                            break
        return session


@contextmanager
def server(home: Path, **settings: str) -> Iterator[Server]:
    """A server in the foreground, for as long as the block lasts."""
    env = {"HUTCH_HOME": str(home), "PATH": "/usr/bin:/bin", **settings}
    command = [str(HUTCH), "up", "--port", "0", "--json"]
    with subprocess.Popen(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as up:
        try:
            assert up.stdout is not None
            said = json.loads(up.stdout.readline())
            if said.get("link") and not (home / COOKIE).exists():
                _log_in(home, said["url"], said["link"])
            yield Server(home, said["url"])
        finally:
            up.terminate()


def _log_in(home: Path, url: str, link: str) -> None:
    with httpx.Client(trust_env=False) as client:
        answer = client.post(f"{url}/api/v1/login/link", json={"link": link.partition("#")[2]})
        assert answer.status_code == 200, answer.text
        (home / COOKIE).write_text(str(client.cookies[f"hutch_{httpx.URL(url).port}"]))


@asynccontextmanager
async def browser(place: Server, count: int = 1) -> AsyncIterator[list[BrowserContext]]:
    """Browsers with the cookies of one login, each a context of its own."""
    async with async_playwright() as playwright:
        arguments = ["--no-sandbox", "--enable-precise-memory-info", "--js-flags=--expose-gc"]
        started = await playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        secret = (place.home / COOKIE).read_text()
        contexts = []
        for _ in range(count):
            context = await started.new_context(viewport=WIDE)
            name = f"hutch_{httpx.URL(place.url).port}"  # a server that was started again has another port
            await context.add_cookies([{"name": name, "value": secret, "url": place.url}])
            context.set_default_timeout(TIMEOUT_S * 1000)
            contexts.append(context)
        yield contexts
        await started.close()


def load() -> str:
    """The load of the machine, for a figure that depends on it."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def wait_until_quiet(most: float = 1.5, timeout_s: float = 0) -> None:
    """Wait for a moment in which few others work."""
    ends = time.monotonic() + timeout_s
    while os.getloadavg()[0] > most * (os.cpu_count() or 1) and time.monotonic() < ends:
        time.sleep(5)
