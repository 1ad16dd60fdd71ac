"""Fixtures that every room may use, and the rule for the modules in tests/pure.txt.

Those are run by `make check`: their tests start no process and use no socket. Every run
watches this, so a test that becomes slow in this way fails until its module leaves the list.
"""

import gc
import os
import signal
import sys
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import anyio.pytest_plugin
import pytest
import structlog
from hypothesis import HealthCheck, settings

from hutch.domain.events import EVENT_TYPES
from hutch.store.event_log import SqlLog, open_log
from tests.hypothesis_examples import examples
from tests.new_database import place_database

# How long an example takes says something about the machine, not about Hutch.
settings.register_profile(
    "hutch", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("hutch")

# Otherwise rich renders each logged traceback in colour: a tenth of what the tests of the gateway took.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)

# Pydantic completes a kind of event at its first use. Hypothesis reads its fields before that, and would
# make up values for `type`.
for _kind in EVENT_TYPES.values():
    _kind.model_rebuild()

# The httpcore of tests looks for this at each request. None: it is missing, no directory needs a look.
sys.modules.setdefault("sniffio", None)  # type: ignore[arg-type]

FIRST_PID_NAMESPACE = 0xEFFFFFFC  # the kernel's own number for it
OUTSIDE = Path(__file__).with_name("outside.txt")
STORIES = "tests/stories/"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest tests first. Tests that tests/outside.txt names cannot pass in a nested root."""
    items.sort(
        key=lambda item: (item.get_closest_marker("long") is None, not item.nodeid.startswith(STORIES))
    )
    if Path("/proc/self/ns/pid").stat().st_ino == FIRST_PID_NAMESPACE:
        return
    names = {line.partition("  # ")[0] for line in OUTSIDE.read_text().splitlines()}
    for item in items:
        if item.nodeid in names:
            item.add_marker(pytest.mark.skip(reason="cannot pass in a nested root: see tests/outside.txt"))


def pytest_collection() -> None:
    """Nearly none of the objects that collecting tests creates are garbage."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Exclude loaded modules from garbage collection: they stay until the end."""
    gc.collect()
    gc.freeze()
    gc.enable()


PURE = frozenset((Path(__file__).parent / "pure.txt").read_text().split())
NOT_PURE = {
    *("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.system"),
    *("socket.bind", "socket.connect", "tests.forked_command"),
}
_started: list[str] = []


def _watch(event: str, _: object) -> None:
    if event in NOT_PURE:
        _started.append(event)


sys.addaudithook(_watch)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup() -> Generator[None]:
    _started.clear()
    yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None]:
    yield
    if (left_in := Path.cwd()) != item.config.invocation_params.dir:
        os.chdir(item.config.invocation_params.dir)
        pytest.fail(f"This test has left the working directory at {left_in}.", pytrace=False)
    if _started:
        item.user_properties.append(("started", _started[0]))
        if item.nodeid.partition("::")[0] in PURE and not item.get_closest_marker("postgresql"):
            pytest.fail(
                f"tests/pure.txt lists this module, and this test did what '{_started[0]}' stands for. "
                "Take the module off the list, or the test into another module.",
                pytrace=False,
            )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call() -> Generator[None, object, object]:
    """Begin each test with a task that was not cancelled.

    While an asynchronous fixture of the session is open, such as the browser, all tests of a worker run in
    one task. A task group of Python 3.11 whose child fails can leave that task marked as cancelled. Then
    `asyncio.timeout` in a later test would raise CancelledError instead of TimeoutError.
    """
    task = getattr(anyio.pytest_plugin._current_runner, "_runner_task", None)
    while task is not None and task.cancelling():
        task.uncancel()
    return (yield)


@pytest.fixture(scope="session", autouse=True)
def default_signals() -> None:
    """Give child processes default signals, also when the tests run under nohup or in the background.

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
    """Collect garbage after each module: what it left open fails its own last test, and no later one.

    The remaining objects are caches, which the next collection need not look through: that
    takes 0.1 to 0.3 s.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture
async def log(tmp_path: Path) -> AsyncIterator[SqlLog]:
    """An event log of its own, in a directory that goes away."""
    place_database(tmp_path)
    async with open_log(
        tmp_path / "hutch.db", tmp_path / "blobs", tmp_path / "keys" / "signing.pem"
    ) as opened:
        yield opened
