"""A file of a session and its local copy, on a real server: without an editor, and with the shortest one."""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from pathlib import Path

import pytest

from hutch.cli import exit_codes
from hutch.cli.api_client import Client
from hutch.cli.editing.editing_lifecycle import EditSession
from hutch.cli.editing.file_sync import MAX_BYTES, FileSync, closest
from hutch.cli.editing.local_copy import LocalCopy
from hutch.cli.editing.session_file_access import ServedFile
from hutch.cli.server_address_and_token import Address
from hutch.cli.session_event_stream import Update
from hutch.domain.errors import Conflict, LimitReached
from hutch.forge.host_git import Git
from tests.deadline import DEADLINE_S
from tests.gateway.api_server import Api, serving

pytestmark = pytest.mark.anyio
LINES = [f"line {number}\n".encode() for number in range(20)]
TEXT = b"".join(LINES)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with serving(tmp_path_factory.mktemp("server")) as opened:
        yield opened


@pytest.fixture(scope="module")
async def session(api: Api) -> str:
    return await api.ready_session()


class Edited:
    """One file, its copy, and another user who changes it in the session."""

    def __init__(self, client: Client, session: str, place: Path, path: str) -> None:
        self.remote = ServedFile(client, {"id": session, "head": None}, path)
        self.place, self.path, self.session = place, path, session
        self.copy = LocalCopy.of(place, session, path)
        self.sync = FileSync(self.remote, self.copy, Git({"PATH": "/usr/bin:/bin"}))

    async def others(self, data: bytes) -> None:
        await self.remote.write(data, over=await self.remote.read())

    def save(self, data: bytes) -> None:
        self.copy.path.write_bytes(data)

    async def both(self) -> bytes:
        """The content after a synchronization, the same on both sides."""
        await self.sync.sync()
        assert self.sync.collision is None and not self.sync.is_pending
        local = self.copy.read()
        assert local is not None and local == await self.remote.read()
        return local


@pytest.fixture
async def edited(
    api: Api, session: str, tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[Edited]:
    async with Client(lambda: Address(api.url, api.token, "environment")) as client:
        made = Edited(client, session, tmp_path, f"dir/{request.node.name}.txt")
        await made.remote.write(TEXT, over=None)
        assert not await made.sync.start()
        yield made


def changed(text: bytes, number: int, to: bytes) -> bytes:
    return text.replace(LINES[number], to + b"\n")


async def test_a_save_goes_to_the_session_and_a_change_of_others_comes_back(edited: Edited) -> None:
    mine = changed(TEXT, 3, b"mine")
    edited.save(mine)
    assert await edited.both() == mine
    theirs = changed(mine, 9, b"theirs")
    await edited.others(theirs)
    assert await edited.both() == theirs
    counts = edited.sync.counts
    assert (counts.saves, counts.received, counts.merges) == (1, 1, 0)


async def test_changes_of_different_lines_are_merged(edited: Edited) -> None:
    await edited.others(changed(TEXT, 15, b"theirs"))
    edited.save(changed(TEXT, 3, b"mine"))
    assert await edited.both() == changed(changed(TEXT, 3, b"mine"), 15, b"theirs")
    assert edited.sync.counts.merges == 1


async def test_an_editor_that_did_not_reload_takes_no_change_of_others_back(edited: Edited) -> None:
    await edited.others(changed(TEXT, 15, b"theirs"))
    await edited.both()  # it is on disk now, and the editor still shows the old text
    edited.save(changed(TEXT, 3, b"mine"))
    merged = changed(changed(TEXT, 3, b"mine"), 15, b"theirs")
    assert await edited.both() == merged
    edited.save(changed(changed(TEXT, 3, b"mine"), 5, b"more"))  # still without reloading
    assert await edited.both() == changed(merged, 5, b"more")
    edited.save(changed(TEXT, 3, b"mine"))
    assert changed(TEXT, 15, b"theirs").splitlines()[15] in await edited.both()


async def test_an_editor_that_reloaded_may_change_the_lines_of_others(edited: Edited) -> None:
    theirs = changed(TEXT, 15, b"theirs")
    await edited.others(theirs)
    await edited.both()
    better = theirs.replace(b"theirs", b"better")
    edited.save(better + b"and more\nand more\n")
    assert await edited.both() == better + b"and more\nand more\n"


async def test_a_collision_changes_neither_side(edited: Edited) -> None:
    mine, theirs = changed(TEXT, 3, b"mine"), changed(TEXT, 3, b"theirs")
    await edited.others(theirs)
    edited.save(mine)
    for _ in range(2):
        await edited.sync.sync()
        collision = edited.sync.collision
        assert collision is not None and edited.sync.is_pending
        assert (collision.mine, collision.theirs) == (mine, theirs)
        assert collision.marked is not None and b"<<<<<<< your version\nmine\n" in collision.marked
        assert (edited.copy.read(), await edited.remote.read()) == (mine, theirs)
    await edited.sync.overwrite(b"settled\n")
    assert await edited.remote.read() == b"settled\n"
    assert not edited.sync.is_pending


async def test_a_collision_is_not_settled_over_a_newer_version(edited: Edited) -> None:
    await edited.others(changed(TEXT, 3, b"theirs"))
    edited.save(changed(TEXT, 3, b"mine"))
    await edited.sync.sync()
    await edited.others(b"newer\n")
    with pytest.raises(Conflict):
        await edited.sync.overwrite(b"mine\n")
    assert await edited.remote.read() == b"newer\n" and edited.sync.is_pending


async def test_binary_files_collide_and_are_not_merged(edited: Edited) -> None:
    await edited.others(b"\0theirs")
    await edited.both()
    edited.save(b"\0mine")
    await edited.others(b"\0theirs again")
    await edited.sync.sync()
    assert edited.sync.collision is not None and edited.sync.collision.marked is None
    assert await edited.remote.read() == b"\0theirs again"


async def test_a_deleted_file_is_created_again_by_a_save(edited: Edited, api: Api) -> None:
    await api.delete(f"/api/v1/sessions/{edited.session}/files/{edited.path}")
    await edited.sync.sync()
    assert edited.copy.read() == TEXT and await edited.remote.read() is None
    edited.save(b"again\n")
    assert await edited.both() == b"again\n"


async def test_a_killed_edit_is_continued(edited: Edited) -> None:
    await edited.others(changed(TEXT, 15, b"theirs"))
    await edited.both()
    edited.save(changed(TEXT, 3, b"mine"))  # then the process is killed
    edited.copy.close(keep=True)
    again = FileSync(edited.remote, LocalCopy.of(edited.place, edited.session, edited.path), edited.sync.git)
    assert await again.start()
    await again.sync()
    assert await edited.remote.read() == changed(changed(TEXT, 3, b"mine"), 15, b"theirs")


async def test_one_file_is_edited_once_at_a_time(edited: Edited) -> None:
    other = FileSync(edited.remote, LocalCopy.of(edited.place, edited.session, edited.path), edited.sync.git)
    with pytest.raises(Conflict, match="open in another"):
        await other.start()


async def test_a_new_file_is_created_by_the_first_save(edited: Edited) -> None:
    new = FileSync(
        ServedFile(edited.remote._client, {"id": edited.session, "head": None}, f"{edited.path}.new"),
        LocalCopy.of(edited.place, edited.session, f"{edited.path}.new"),
        edited.sync.git,
    )
    assert not await new.start()
    assert not new.copy.path.exists()
    await new.sync()
    assert await new.remote.read() is None
    new.copy.path.write_bytes(b"first\n")
    await new.sync()
    assert await new.remote.read() == b"first\n"


async def test_too_large_a_file_is_refused(edited: Edited) -> None:
    edited.save(bytes(MAX_BYTES + 1))
    with pytest.raises(LimitReached, match="hutch files put"):
        await edited.sync.sync()
    assert edited.sync.is_pending  # so it is kept


class SlowFile:
    """A file of a session on a slow connection: a save is confirmed after the editor has ended."""

    def __init__(self, remote: ServedFile, written: Path, editor: Path) -> None:
        self._remote, self._written, self._editor = remote, written, editor

    async def read(self) -> bytes | None:
        return await self._remote.read()

    async def write(self, data: bytes, *, over: bytes | None) -> None:
        await self._remote.write(data, over=over)
        self._written.touch()
        while not await asyncio.to_thread(self._has_ended):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        for _ in range(100):  # all that is due in the event loop
            await asyncio.sleep(0)

    def follow(self) -> AsyncGenerator[Update]:
        return self._remote.follow()

    def _has_ended(self) -> bool:
        pid = self._editor.read_text().strip() if self._editor.exists() else ""  # not started yet
        return bool(pid) and not Path(f"/proc/{pid}").exists()


async def test_a_save_is_sent_and_counted_though_the_editor_is_fast(
    edited: Edited, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """It saves before anything else runs, and ends before the session confirms that."""
    written, pid = tmp_path / "written", tmp_path / "pid"
    copy = LocalCopy.of(tmp_path / "edits", edited.session, edited.path)
    sync = FileSync(SlowFile(edited.remote, written, pid), copy, edited.sync.git)
    script = tmp_path / "editor"
    script.write_text(f"echo $$ > {pid}; until [ -e {written} ]; do sleep 0.05; done\n")
    saved = False

    def save(event: str, _: object) -> None:
        nonlocal saved
        if event == "subprocess.Popen" and not saved:
            saved = True
            copy.path.write_bytes(changed(TEXT, 3, b"mine"))

    sys.addaudithook(save)
    try:
        async with asyncio.timeout(DEADLINE_S):
            code = await EditSession(sync, edited.session, edited.path, ["/bin/sh", str(script)]).run()
    finally:
        saved = True  # a hook cannot be removed
    assert code == exit_codes.OK
    assert "saved once." in capfd.readouterr().err
    assert await edited.remote.read() == changed(TEXT, 3, b"mine")


@pytest.fixture
def copy(tmp_path: Path) -> Iterator[LocalCopy]:
    made = LocalCopy.of(tmp_path, "ses_1", "a/b.txt")
    assert made.open() is None
    yield made
    made.close(keep=False)


def test_a_save_during_a_replacement_is_not_lost(copy: LocalCopy) -> None:
    copy.path.write_bytes(b"saved meanwhile")
    assert not copy.replace(b"of others", over=b"before")
    assert copy.read() == b"saved meanwhile"
    assert not copy.replace(b"of others", over=None)
    assert copy.read() == b"saved meanwhile"
    assert copy.replace(b"of others", over=b"saved meanwhile")
    assert copy.read() == b"of others"
    copy.path.unlink()
    assert not copy.replace(b"x", over=b"of others")
    assert copy.replace(b"new", over=None) and copy.read() == b"new"
    assert sorted(path.name for path in copy.directory.iterdir()) == ["file", "lock"]
    assert copy.path.stat().st_mode & 0o777 == 0o600


def test_a_copy_is_private_and_removed(copy: LocalCopy) -> None:
    assert copy.directory.stat().st_mode & 0o777 == 0o700
    copy.store_versions([None, b"a"])
    copy.close(keep=True)
    assert copy.open() == [None, b"a"]
    copy.close(keep=False)
    assert not copy.directory.exists()


def test_the_newest_of_equally_similar_versions_is_the_closest() -> None:
    assert closest(b"a\nb\n", [b"a\nb\n", b"a\n", b"b\n"]) == b"a\nb\n"
    assert closest(b"a\nb\nc\n", [b"a\n", b"b\n"]) == b"b\n"
    assert closest(b"x\n", [None]) is None
