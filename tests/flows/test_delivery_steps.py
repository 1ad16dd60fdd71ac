"""Delivery is taken up wherever it was left."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hutch.app.change_and_delivery_contexts import change_context
from hutch.app.event_log import event_log
from hutch.domain.events import ChangeProposed, Event, RanTests
from hutch.domain.proposed_change import Change
from hutch.flows.delivery.delivery_steps import Append, deliver
from hutch.flows.pull_request_text import describe_tests
from hutch.store.proposed_changes import Changes
from tests.flows.delivery_fixtures import PROPOSAL, Delivering, bare, branches

pytestmark = pytest.mark.anyio


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    with TemporaryDirectory(prefix="hutch-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_a_recorded_but_unreported_delivery_is_reported_once(place: Path) -> None:
    """As after a crash between the row and the event."""
    hutch, origin, log = Delivering(place), bare(place), list[Event]()

    async def killed(events: Sequence[Event]) -> None:
        raise ConnectionAbortedError

    async def append(events: Sequence[Event]) -> None:
        log.extend(events)

    async with hutch.workspace(str(origin)) as workspace, event_log(hutch.loaded) as rows:
        start = await workspace.snapshot("before")
        await workspace.write("new", b"1\n")
        last = await workspace.snapshot("after")

        async def attempt(append: Append, known: Sequence[str] = ()) -> Change | None:
            return await deliver(
                change_context(hutch.loaded, rows, rows),
                workspace,
                PROPOSAL,
                append=append,
                start=start,
                last=last,
                known_commits=known,
            )

        with pytest.raises(ConnectionAbortedError):
            await attempt(killed)
        change = await attempt(append)
        assert change and await attempt(append, [change.commit]) == change
        assert await Changes(rows).list() == [change]
    assert branches(origin) == ["hutch/say-more", "main"]
    assert [event.change_id for event in log if isinstance(event, ChangeProposed)] == [change.id]


def ran(reason: str = "", *, failed: int = 0, ok: bool = False) -> RanTests:
    return RanTests(run_id="run_1", command="t", ok=ok, passed=2, failed=failed, skipped=0, reason=reason)


async def test_the_reason_why_tests_could_not_run_is_one_line() -> None:
    result = describe_tests(ran("The tests failed with exit code 2:\nno \x1b[31mmodule\u2028'x'."))
    assert result == "failed as a whole: The tests failed with exit code 2: no [31mmodule 'x'"
    assert describe_tests(ran()) == "failed as a whole, 2 passed"
    assert describe_tests(ran(failed=1)) == "1 failed, 2 passed"
    assert describe_tests(ran(ok=True)) == "2 passed"
    assert len(describe_tests(ran("x" * 10_000))) < 600


async def test_a_secret_that_tests_print_is_not_delivered(place: Path) -> None:
    hutch, origin, token = Delivering(place), bare(place), "ghp_" + "a1B2" * 9
    tests = describe_tests(ran(f"test_x[{token}] is not found"))

    async def append(events: Sequence[Event]) -> None:
        return None

    async with hutch.workspace(str(origin)) as workspace, event_log(hutch.loaded) as rows:
        start = await workspace.snapshot("before")
        await workspace.write("new", b"1\n")
        last = await workspace.snapshot("after")
        proposal = replace(PROPOSAL, tests=tests)
        change = await deliver(
            change_context(hutch.loaded, rows, rows),
            workspace,
            proposal,
            append=append,
            start=start,
            last=last,
        )
    assert change and change.tests_fail and token in tests
    assert token not in change.tests and change.tests.startswith("failed as a whole: test_x[")
