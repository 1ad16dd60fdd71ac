"""A directory that users of jails can reach."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


@pytest.fixture
def place() -> Iterator[Path]:
    with TemporaryDirectory(prefix="hutch-test-", ignore_cleanup_errors=True) as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
