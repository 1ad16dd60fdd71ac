"""A way to have work killed in the middle."""

from collections.abc import Callable, Iterator

import pytest

from tests.workspace.fork_process import Forks


@pytest.fixture(scope="session")
def in_child() -> Iterator[Callable[..., int]]:
    """Runs a function in a process of its own, and returns its wait status."""
    forks = Forks()
    yield forks.run
    forks.close()
