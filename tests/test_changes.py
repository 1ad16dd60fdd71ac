"""Delivery is taken up wherever it was left."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from hutch.app import changes
from hutch.domain.change import Change
from hutch.domain.events import ChangeProposed, Event
from tests.flows.delivering import PROPOSAL, Delivering, bare, branches

pytestmark = pytest.mark.anyio


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that the jail's user can reach."""
    with TemporaryDirectory(prefix="hutch-test-") as name:
        Path(name).chmod(0o755)
        yield Path(name)


async def test_what_was_written_down_and_not_told_is_told_once(place: Path) -> None:
    """As after a crash between the row and the event."""
    hutch, origin, log = Delivering(place), bare(place), list[Event]()

    async def killed(events: Sequence[Event]) -> None:
        raise ConnectionAbortedError

    async def append(events: Sequence[Event]) -> None:
        log.extend(events)

    async with hutch.workspace(str(origin)) as workspace:
        start = await workspace.snapshot("before")
        await workspace.write("new", b"1\n")
        last = await workspace.snapshot("after")

        async def deliver(append: changes.Append, told: Sequence[str] = ()) -> Change | None:
            return await changes.deliver(
                hutch.loaded, workspace, PROPOSAL, append=append, start=start, last=last, told=told
            )

        with pytest.raises(ConnectionAbortedError):
            await deliver(killed)
        change = await deliver(append)
        assert change and await deliver(append, [change.commit]) == change
    assert branches(origin) == ["hutch/say-more", "main"]
    assert [event.change_id for event in log if isinstance(event, ChangeProposed)] == [change.id]
    assert await changes.changes_of(hutch.loaded).list() == [change]
