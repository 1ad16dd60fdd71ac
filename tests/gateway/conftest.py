"""Servers and places for the tests of this room."""

from collections.abc import Iterator

import pytest

from tests.gateway.serving import Listening, Place, by_http, new_place


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
