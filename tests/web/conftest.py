"""A server with its web app, and a browser that is logged in to it."""

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, expect

from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.gateway.headless_browser import chromium

expect.set_options(timeout=TIMEOUT_S * 1000)
WIDE = {"width": 1280, "height": 800}


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    # One for each module: runs that wait for a user keep their place on a server.
    with Home(tmp_path_factory.mktemp("web"), is_new=True).up() as server:
        yield server


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    async with chromium() as started:
        yield started


@pytest.fixture(scope="module")
async def api(up: Up) -> AsyncIterator[httpx.AsyncClient]:
    headers = {"Authorization": f"Bearer {up.home.token}"}
    url = f"{up.url}/api/v1"
    async with httpx.AsyncClient(base_url=url, headers=headers, timeout=TIMEOUT_S, trust_env=False) as client:
        yield client


@pytest.fixture(scope="module")
async def logged_in(up: Up, browser: Browser) -> AsyncIterator[BrowserContext]:
    """One login for all tests of a module, by the link that the first start prints."""
    context = await browser.new_context(viewport=WIDE, locale="en-GB")
    context.set_default_timeout(TIMEOUT_S * 1000)
    secret = up.printed["link"].partition("#")[2]
    answer = await context.request.post(f"{up.url}/api/v1/login/link", data={"link": secret})
    assert answer.status == 200, await answer.text()
    yield context
    await context.close()


@pytest.fixture
async def page(logged_in: BrowserContext, up: Up) -> AsyncIterator[Page]:
    async with watched_page(logged_in, up) as opened:
        yield opened


@pytest.fixture(scope="module")
async def only_page(logged_in: BrowserContext, up: Up) -> AsyncIterator[Page]:
    """One page for tests that change nothing: a new one takes longer to start than most pages to be shown."""
    async with watched_page(logged_in, up) as opened:
        yield opened


CUT = re.compile(r"net::ERR_(FAILED|CONNECTION_\w+|EMPTY_RESPONSE|INCOMPLETE_CHUNKED_ENCODING)")


@asynccontextmanager
async def watched_page(context: BrowserContext, up: Up) -> AsyncIterator[Page]:
    """A page whose test fails at an error of the browser, a refusal, or a request to another origin."""
    problems: list[str] = []
    opened = await context.new_page()
    opened.on(
        "console",
        lambda said: (
            said.type == "error"
            and not CUT.search(said.text)  # a test has aborted this request, or killed the server
            and problems.append(f"{said.text} {said.location.get('url', '')}")
        ),
    )
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on(
        "request",
        lambda sent: (
            sent.url.startswith((up.url, "data:", up.url.replace("http", "ws"))) or problems.append(sent.url)
        ),
    )
    yield opened
    await opened.close()
    assert problems == []
