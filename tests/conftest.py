"""Fixtures that every room may use."""

import gc
import signal
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hutch.store.log import SqlLog, open_log

FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's own number for it
OUTSIDE = Path(__file__).with_name("outside.txt")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what cannot pass in a nested root; its name and the reason are in tests/outside.txt."""
    if Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE:
        return
    names = {line.partition("  # ")[0] for line in OUTSIDE.read_text().splitlines()}
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.skip(reason="cannot pass in a nested root: see tests/outside.txt"))


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> None:
    """What tests start has default signals, also when the tests run under nohup or in the background.

    A child inherits what is ignored, but not what is caught. So a signal that this process ignores is caught
    instead, by a handler that does nothing: this process goes on as before.
    """
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="module")
def _closed() -> Iterator[None]:
    """Collect garbage after each module: what it left open fails its own last test, and no later one."""
    yield
    gc.collect()


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    """An event log of its own, in a directory that goes away."""
    async with open_log(
        tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem"
    ) as opened:
        yield opened
