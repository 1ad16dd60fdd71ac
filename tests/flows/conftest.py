"""A place that a jail can reach, and a home of Hutch in it."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.flows.delivery_fixtures import Delivering


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
def hutch(place: Path) -> Delivering:
    return Delivering(place)
