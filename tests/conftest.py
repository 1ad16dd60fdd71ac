"""Fixtures that every room may use."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hutch.store.log import SqlLog, open_log


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    """An event log of its own, in a directory that goes away."""
    async with open_log(
        tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem"
    ) as opened:
        yield opened
