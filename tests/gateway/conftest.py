"""Fixtures of servers for the tests of the gateway."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.gateway.api_server import Api, serving
from tests.gateway.mcp_server import Listening, Place, by_http, new_place


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    """One loop for all tests of a module, so that they can share a server."""
    return "asyncio"


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A server for all tests of a module, as its owner sees it."""
    async with serving(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture
def place() -> Iterator[Place]:
    with new_place() as made:
        yield made


@pytest.fixture(scope="module")
def shared_place() -> Iterator[Place]:
    with new_place() as made:
        yield made


@pytest.fixture(scope="module")
def shared(shared_place: Place) -> Iterator[Listening]:
    """One server by HTTP for tests that leave it as it was."""
    with by_http(shared_place) as listening:
        yield listening
