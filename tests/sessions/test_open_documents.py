"""Shared texts, their journal, and saves that a crash interrupts."""

import asyncio
import hashlib
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pycrdt import Doc, Text

from hutch.domain.errors import Conflict, Denied, LimitReached, NotFound
from hutch.sessions.collaborative_editing.open_document import OpenDocument
from hutch.sessions.collaborative_editing.open_documents import Documents
from hutch.sessions.collaborative_editing.shared_text import ROOT, SharedText
from hutch.sessions.collaborative_editing.text_difference import find_replacements
from hutch.sessions.collaborative_editing.update_journal import Header, Journal
from hutch.sessions.file_and_command_requests import ReadFile, Request, WriteFile
from hutch.workspace.files.partial_read import Bytes

pytestmark = pytest.mark.anyio
TEXTS = st.lists(st.sampled_from(["a\n", "é\n", "😀b\n", "c", "\n", "dd\n"]), max_size=12).map("".join)


@given(TEXTS, TEXTS)
def test_the_difference_turns_one_text_into_the_other(before: str, after: str) -> None:
    data = before.encode()
    for start, end, text in reversed(find_replacements(before, after)):
        data = data[:start] + text.encode() + data[end:]
    assert data.decode() == after


@given(TEXTS, TEXTS, TEXTS)
def test_typing_and_a_change_on_disk_are_merged(before: str, typed: str, after: str) -> None:
    shared = SharedText.of(before)
    peer: Doc[Text] = Doc()
    peer[ROOT] = Text()
    peer.apply_update(shared.updates_since())
    peer[ROOT].insert(0, f"<{typed}>")
    shared.apply(peer.get_update())
    shared.change_on_disk(find_replacements(before, after))
    assert shared.text_on_disk == after
    assert shared.text.replace(f"<{typed}>", "", 1) == after


class Disk:
    """One file, with a crash after a write."""

    def __init__(self, data: bytes) -> None:
        self.data: bytes | None = data
        self.crashes = False
        self.writes: list[tuple[str, bytes]] = []

    async def call(self, request: Request[Any], by: str) -> Any:
        match request:
            case ReadFile(path, start):
                if self.data is None:
                    raise NotFound("There is none.")
                return Bytes(path, self.data[start:], start, len(self.data))
            case WriteFile(_, data, if_hash, create):
                if create is (self.data is not None):
                    raise Conflict("There is one.")
                if self.data is not None and if_hash != hashlib.sha256(self.data).hexdigest():
                    raise Conflict("It has changed.")
                self.data = data
                self.writes.append((by, data))
                if self.crashes:
                    raise OSError("The power failed.")


class Silent:
    def __init__(self, user_id: str = "usr_1") -> None:
        self.user_id = user_id

    def receive(self, document: OpenDocument, update: bytes) -> None: ...

    def notify(self, document: OpenDocument, kind: str, **fields: Any) -> None: ...


def typed(document: OpenDocument, text: str) -> bytes:
    peer: Doc[Text] = Doc()
    peer[ROOT] = Text()
    peer.apply_update(document.updates_since())
    before = peer.get_state()
    peer[ROOT].insert(0, text)
    return peer.get_update(before)


async def test_a_save_that_a_crash_interrupts_is_not_doubled(tmp_path: Path) -> None:
    disk, place = Disk(b"one\n"), tmp_path / "documents" / "a"
    document = await OpenDocument.open("a", place, disk.call, by="usr_1")
    document.edit(Silent(), typed(document, "typed "))
    disk.crashes = True
    with pytest.raises(OSError, match="power"):
        await document.save("usr_1")
    document.edit(Silent(), typed(document, "later "))
    disk.crashes = False
    again = await OpenDocument.open("a", place, disk.call, by="usr_1")
    assert again.epoch == document.epoch
    await again.save("usr_1")
    assert disk.data == b"later typed one\n"
    await again.close()


async def test_each_author_saves_their_own_text(tmp_path: Path) -> None:
    disk, ann, ben = Disk(b"one\n"), Silent("usr_ann"), Silent("usr_ben")
    document = await OpenDocument.open("a", tmp_path / "documents" / "a", disk.call, by="usr_ann")
    for who, text in ((ann, "a"), (ann, "b"), (ben, "c"), (ann, "d")):
        document.edit(who, typed(document, text))
    disk.data = b"one\ntwo\n"  # by a program
    await document.save("usr_cy")
    assert disk.writes == [
        ("usr_ann", b"baone\ntwo\n"),
        ("usr_ben", b"cbaone\ntwo\n"),
        ("usr_ann", b"dcbaone\ntwo\n"),
    ]
    await document.close()


@pytest.mark.parametrize("is_written", [True, False])
async def test_authors_are_known_after_a_crash(tmp_path: Path, is_written: bool) -> None:
    disk, place = Disk(b"one\n"), tmp_path / "documents" / "a"
    document = await OpenDocument.open("a", place, disk.call, by="usr_ann")
    document.edit(Silent("usr_ann"), typed(document, "a"))
    document.edit(Silent("usr_ben"), typed(document, "b"))
    if is_written:
        disk.crashes = True
        with pytest.raises(OSError, match="power"):
            await document.save("usr_cy")
        disk.crashes = False
    again = await OpenDocument.open("a", place, disk.call, by="usr_cy")
    await again.save("usr_cy")
    assert disk.writes == [("usr_ann", b"aone\n"), ("usr_ben", b"baone\n")]
    await again.close()


async def test_no_more_versions_than_a_maximum_wait_for_a_save(tmp_path: Path) -> None:
    disk = Disk(b"one\n")
    document = await OpenDocument.open("a", tmp_path / "documents" / "a", disk.call, by="usr_1")
    with pytest.raises(LimitReached, match="take turns"):
        for number in range(1000):
            document.edit(Silent(f"usr_{number % 2}"), typed(document, "x"))
    await document.close()
    assert disk.data is not None and disk.data.count(b"x") == len(disk.writes) > 50


def test_a_record_that_was_cut_short_is_dropped(tmp_path: Path) -> None:
    place = tmp_path / "documents" / "a"
    journal = Journal.create(place, Header("e", "a", None), b"saved")
    journal.add(b"first")
    journal.add(b"second")
    journal.close()
    with place.open("r+b") as file:
        file.truncate(place.stat().st_size - 3)
    for _ in range(2):
        found = Journal.open(place)
        assert found is not None
        opened, records = found
        assert [data for _, data in records] == [b"saved", b"first"]
        opened.close()
    place.write_bytes(b"no journal\n")
    assert Journal.open(place) is None


async def test_documents_are_in_use_while_one_is_being_opened(tmp_path: Path) -> None:
    """Else the failed opening of another file would drop them, and the file would be open twice."""
    reading, go_on = asyncio.Event(), asyncio.Event()
    disk = Disk(b"one\n")

    async def call(request: Request[Any], by: str) -> Any:
        if getattr(request, "path", "") == "none":
            raise Denied("No.")
        reading.set()
        await go_on.wait()
        return await disk.call(request, by)

    async def follow() -> AsyncGenerator[Any]:
        await asyncio.Event().wait()
        yield None

    documents = Documents(tmp_path / "documents", call, follow)

    async def edit() -> None:
        async with documents.join("a.txt", Silent()):
            assert documents.is_used

    editing = asyncio.ensure_future(edit())
    await reading.wait()
    with pytest.raises(Denied):
        async with documents.join("none", Silent()):
            pass
    assert documents.is_used
    go_on.set()
    await editing
    assert not documents.is_used
