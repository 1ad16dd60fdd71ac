"""Several sessions of one process work in the same directory of a user."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hutch import settings
from hutch.app.sandbox_opener import sandbox_opener
from hutch.app.workspaces import workspaces_of
from hutch.domain.errors import Conflict
from hutch.domain.ids import new_session_id
from hutch.domain.session import Delivery, Session
from hutch.flows.in_place_workspaces import InPlaceDirectories
from hutch.settings import LoadedSettings
from hutch.workspace.workspace import Workspace

pytestmark = pytest.mark.anyio


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedSettings:
    return settings.load(environ={"HOME": str(tmp_path / "home")})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    directory = tmp_path / "work"
    directory.mkdir()
    return directory


def session_in(directory: Path) -> Session:
    return Session(
        id=new_session_id(),
        owner="usr_1",
        repository=str(directory),
        delivery=Delivery(in_place=True),
        created_ms=0,
        updated_ms=0,
    )


def directories(loaded: LoadedSettings) -> InPlaceDirectories:
    return InPlaceDirectories(workspaces_of(loaded), check=lambda _: None, clean=str)


@asynccontextmanager
async def workspace_of(
    where: InPlaceDirectories, session: Session, name: str, loaded: LoadedSettings
) -> AsyncIterator[Workspace]:
    opener = await where.opener(session, sandbox_opener(loaded))
    async with opener.open_workspace(name) as workspace:
        yield workspace


async def test_sessions_that_are_prepared_before_either_is_open_can_both_be_open(
    loaded: LoadedSettings, work: Path
) -> None:
    first, second = session_in(work), session_in(work)
    async with directories(loaded) as here:
        names = [(await here.prepare(each)).workspace_id for each in (first, second)]
        assert names == ["in-place", "in-place-2"]
        async with workspace_of(here, first, names[0], loaded), workspace_of(here, second, names[1], loaded):
            (work / "note.txt").write_text("seen by both\n")


async def test_a_session_without_a_jail_keeps_its_number(loaded: LoadedSettings, work: Path) -> None:
    first, second = session_in(work), session_in(work)
    async with directories(loaded) as here:
        name = (await here.prepare(first)).workspace_id
        async with workspace_of(here, first, name, loaded):
            pass  # then it is idle, and its jail is closed
        other = (await here.prepare(second)).workspace_id
        async with workspace_of(here, second, other, loaded), workspace_of(here, first, name, loaded):
            pass


async def test_a_session_that_was_never_opened_leaves_its_number_to_the_next_process(
    loaded: LoadedSettings, work: Path
) -> None:
    for _ in range(2):
        async with directories(loaded) as here:
            assert (await here.prepare(session_in(work))).workspace_id == "in-place"


async def test_a_later_process_says_which_session_has_the_snapshots_of_an_earlier_one(
    loaded: LoadedSettings, work: Path
) -> None:
    earlier, new = session_in(work), session_in(work)
    async with directories(loaded) as before:
        name = (await before.prepare(earlier)).workspace_id
    async with directories(loaded) as here:
        opened = (await here.prepare(new)).workspace_id
        async with workspace_of(here, new, opened, loaded):
            with pytest.raises(Conflict, match=f"cannot continue while {new.id} is open"):
                async with workspace_of(here, earlier, name, loaded):
                    raise AssertionError("opened")
            async with directories(loaded) as elsewhere:
                with pytest.raises(Conflict, match="is open in another process"):
                    async with workspace_of(elsewhere, earlier, name, loaded):
                        raise AssertionError("opened")
