"""A separate jail for a test."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hutch.jail.jail_startup import Jailed, open_jail
from hutch.jail.policy import AGENT
from tests.deadline import DEADLINE_S

LONG_TIMEOUT = replace(AGENT, limits=replace(AGENT.limits, command_timeout_s=DEADLINE_S))


@pytest.fixture
def workspace() -> Iterator[Path]:
    """A directory that other users can reach, since the jail's user may be another."""
    directory = Path(tempfile.mkdtemp(prefix="hutch-test-"))
    directory.chmod(0o755)
    yield directory
    shutil.rmtree(directory)


@pytest.fixture
async def jail(workspace: Path) -> AsyncIterator[Jailed]:
    async with open_jail(workspace, LONG_TIMEOUT) as opened:
        yield opened
