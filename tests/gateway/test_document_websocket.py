"""Files are edited by several people at once over a WebSocket, and by programs meanwhile."""

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import orjson
import pytest
from pycrdt import Doc, Text
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed, InvalidStatus

from hutch.gateway.stream.document_websocket import COUNTED_S, MAX_UNSENT_BYTES, Connection, _File
from hutch.gateway.stream.open_streams import SLOW, Ending
from hutch.gateway.stream.stream_permission import StreamGrant
from hutch.sessions.collaborative_editing.open_document import OpenDocument
from tests.gateway.api_server import TIMEOUT_S, V1, Api, eventually, serving
from tests.gateway.stream_clients import screen, socket

pytestmark = pytest.mark.anyio
NUMBER = 7


class Editor:
    """A client with one file open, as a browser would have it."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection
        self.doc: Doc[Text] = Doc()
        self.doc["content"] = Text()
        self.news: list[dict[str, Any]] = []
        self.epoch = ""

    @property
    def text(self) -> str:
        return str(self.doc["content"])

    async def send(self, type: str, **fields: Any) -> None:
        await self.connection.send(orjson.dumps({"type": type, "document": NUMBER, **fields}).decode())

    async def open(self, path: str) -> dict[str, Any]:
        """Open a file, and send the text that was typed while offline."""
        mine = base64.b64encode(self.doc.get_state()).decode()
        await self.send("open", path=path, epoch=self.epoch, state=mine)
        opened = await self.until("opened")
        self.epoch = opened["epoch"]
        await self.connection.send(
            NUMBER.to_bytes(4) + self.doc.get_update(base64.b64decode(opened["state"]))
        )
        return opened

    async def type(self, at: int, text: str) -> None:
        before = self.doc.get_state()
        self.doc["content"].insert(at, text)
        await self.connection.send(NUMBER.to_bytes(4) + self.doc.get_update(before))

    async def read(self) -> None:
        frame = await self.connection.recv()
        if isinstance(frame, bytes):
            assert int.from_bytes(frame[:4]) == NUMBER
            self.doc.apply_update(frame[4:])
        else:
            self.news.append(orjson.loads(frame))

    async def until(self, kind: str) -> dict[str, Any]:
        async with asyncio.timeout(TIMEOUT_S):
            while not any(each["type"] == kind for each in self.news):
                await self.read()
        found = next(each for each in self.news if each["type"] == kind)
        self.news.remove(found)
        return found

    async def sees(self, *texts: str) -> None:
        async with asyncio.timeout(TIMEOUT_S):
            while not all(text in self.text for text in texts):
                await self.read()


@asynccontextmanager
async def editing(api: Api, session_id: str, path: str = "a.txt") -> AsyncIterator[Editor]:
    async with socket(api, f"/sessions/{session_id}/documents/socket") as connection:
        editor = Editor(connection)
        await editor.open(path)
        yield editor


async def put(api: Api, session_id: str, path: str, data: bytes) -> None:
    answered = await api.put(f"{V1}/sessions/{session_id}/files/{path}", content=data)
    assert answered.status_code in (200, 201), answered.text


async def content(api: Api, session_id: str, path: str = "a.txt") -> bytes:
    return (await api.get(f"{V1}/sessions/{session_id}/files/{path}")).content


async def test_two_people_type_in_one_file_and_it_is_saved(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", "one é\ntwo\n".encode())
        async with editing(api, session_id) as ada, editing(api, session_id) as bo:
            await ada.sees("two")
            await bo.sees("two")
            assert ada.text == bo.text == "one é\ntwo\n"
            await asyncio.gather(ada.type(0, "A"), bo.type(len("one é\n".encode()), "B"))
            await ada.sees("Aone é\nBtwo")
            await bo.sees("Aone é\nBtwo")
            await bo.send("cursor", position={"anchor": 3})
            cursor = await ada.until("cursor")
            assert cursor["position"] == {"anchor": 3} and cursor["name"] and cursor["user"]
            await ada.until("saved")
            assert await content(api, session_id) == "Aone é\nBtwo\n".encode()
        changes = [each for each in await api.events(session_id) if each["type"] == "file.changed"]
        assert changes[-1]["by"] == changes[0]["by"] and changes[-1]["cause"] == "request"


async def test_a_cursor_goes_when_its_connection_breaks(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\n")
        async with editing(api, session_id) as ada:
            async with editing(api, session_id) as bo:
                await bo.send("cursor", position={"anchor": 1})
                assert (await ada.until("cursor"))["position"] == {"anchor": 1}
                bo.connection.transport.abort()
            assert (await ada.until("cursor"))["position"] is None


async def test_a_program_changes_a_file_while_a_user_types(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\ntwo\nthree\n")
        async with editing(api, session_id) as ada:
            await ada.sees("three")
            await ada.type(3, " by hand")
            answered = await api.post(
                f"{V1}/sessions/{session_id}/commands", json={"command": "sed -i s/three/3/ a.txt"}
            )
            assert answered.status_code < 300, answered.text
            await ada.sees("one by hand\ntwo\n3\n")
            await ada.send("save")
            await ada.until("saved")
            assert await content(api, session_id) == b"one by hand\ntwo\n3\n"
            await put(api, session_id, "a.txt", b"")
            async with asyncio.timeout(TIMEOUT_S):
                while ada.text:
                    await ada.read()


async def test_what_was_typed_without_a_connection_is_merged_after_a_restart(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\r\ntwo\r\n")
        async with editing(api, session_id) as ada:
            await ada.sees("two")
            await ada.type(0, "sent ")
    ada.doc["content"].insert(0, "offline ")
    async with serving(tmp_path) as api:
        await put(api, session_id, "a.txt", b"sent one\r\ntwo\r\nby another\r\n")
        async with socket(api, f"/sessions/{session_id}/documents/socket") as connection:
            ada.connection, epoch = connection, ada.epoch
            assert (await ada.open("a.txt"))["epoch"] == epoch
            await ada.sees("by another")
            await ada.send("save")
            await ada.until("saved")
        assert ada.text == "offline sent one\ntwo\nby another\n"
        assert await content(api, session_id) == b"offline sent one\r\ntwo\r\nby another\r\n"


async def test_a_new_file_is_written_and_a_deleted_one_kept_in_the_editor(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        async with editing(api, session_id, "new/b.txt") as ada:
            await ada.type(0, "text")
            await ada.until("saved")
            assert await content(api, session_id, "new/b.txt") == b"text"
            await api.delete(f"{V1}/sessions/{session_id}/files/new/b.txt")
            await ada.until("deleted")
            assert ada.text == "text"
            await ada.type(4, " again")
            await ada.send("save")
            await ada.until("saved")
            assert await content(api, session_id, "new/b.txt") == b"text again"


async def test_only_people_who_may_work_in_the_session_get_documents(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        bob = await api.as_user("bob")
        for status in (404, 403):
            with pytest.raises(InvalidStatus) as refused:
                async with socket(bob, f"/sessions/{session_id}/documents/socket"):
                    pass
            assert refused.value.response.status_code == status
            shared = await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "observer"})
            assert shared.status_code < 300, shared.text


async def test_a_share_that_is_withdrawn_ends_editing(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\n")
        bob = await api.as_user("bob")
        await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "member"})
        async with editing(bob, session_id) as editor:
            await editor.sees("one")
            await editor.type(0, "in time, ")
            await editor.send("ping")
            await editor.until("pong")
            await api.put(f"{V1}/sessions/{session_id}/shares/bob", json={"role": "observer"})
            with suppress(ConnectionClosed):  # the first edit after the answer is too late
                await editor.type(0, "too late, ")
                await editor.until("error")
        async with editing(api, session_id) as owner:
            await owner.sees("one")
            assert owner.text == "in time, one\n"
            await owner.send("save")

            async def is_saved() -> bool:
                return await content(api, session_id) == b"in time, one\n"

            await eventually(is_saved)  # what was typed before is nobody's loss


@pytest.mark.parametrize(
    ("frame", "expected"),
    [
        ({"type": "open", "path": "../../etc/passwd"}, "path"),
        ({"type": "open", "path": ""}, "path"),
        ({"type": "open", "path": "b.bin"}, "not UTF-8"),
        ({"type": "open", "path": "a.txt", "state": "!"}, "Base64"),
        ({"type": "save"}, "Open it first"),
        ({"type": "dance"}, "There is no frame"),
        ({"type": "cursor", "position": {"x": "y" * 5000}}, "Open it first"),
        (b"\0\0\0\1garbage", "Open it first"),
        (b"", "Open it first"),
    ],
)
async def test_bad_frames_are_answered_and_change_nothing(tmp_path: Path, frame: Any, expected: str) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "b.bin", b"\xff\xfe\0")
        async with socket(api, f"/sessions/{session_id}/documents/socket") as connection:
            editor = Editor(connection)
            if isinstance(frame, bytes):
                await connection.send(frame)
            else:
                await editor.send(**frame)
            assert expected in (await editor.until("error"))["detail"]


async def test_a_broken_update_is_refused(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"one\n")
        async with editing(api, session_id) as ada:
            await ada.connection.send(NUMBER.to_bytes(4) + b"\xff\xff\xff\xff")
            assert "update" in (await ada.until("error"))["detail"]
            await ada.type(0, "still ")
            await ada.send("save")
            await ada.until("saved")
        assert await content(api, session_id) == b"still one\n"


async def test_a_deep_value_in_an_update_does_not_end_the_server(tmp_path: Path) -> None:
    nested = b"\x01\x01\x01\x00\x08\x01\x07content\x01" + b"\x75\x01" * 400_000 + b"\x00\x00"
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        async with editing(api, session_id) as ada:
            await ada.connection.send(NUMBER.to_bytes(4) + nested)
            assert "update" in (await ada.until("error"))["detail"]
            await ada.type(0, "still here")
            await ada.send("save")
            await ada.until("saved")
        assert await content(api, session_id) == b"still here"


def _connection(ended: list[Ending], authenticator: Any = None) -> Connection:
    """A client whose messages nobody sends."""
    caller: Any = SimpleNamespace(user=SimpleNamespace(id="usr_1", name="ada"), credential_id="tok_1")
    nothing: Any = None
    grant = StreamGrant(nothing, authenticator, nothing, caller, nothing, nothing, True, nothing)
    stream: Any = SimpleNamespace(grant=grant, end=ended.append)
    return Connection(stream, nothing, AsyncExitStack())


def test_long_messages_end_a_client_that_does_not_read() -> None:
    """They are counted with their length, or the cursors of others would fill the memory."""
    ended: list[Ending] = []
    connection, document = _connection(ended), cast(OpenDocument, object())
    connection._files[1] = _File(1, document, AsyncExitStack())
    sent = 0
    while not ended and sent < 2 * MAX_UNSENT_BYTES:
        connection.notify(document, "cursor", position={"name": "y" * 1900})
        sent += 1900
    assert ended == [SLOW]


async def test_edits_that_take_long_count_as_many_requests() -> None:
    taken: list[str] = []
    buckets = SimpleNamespace(take=lambda key: taken.append(key) or 0)
    connection = _connection([], SimpleNamespace(buckets=buckets))
    await connection._count_work(COUNTED_S / 2)
    assert not taken
    await connection._count_work(COUNTED_S * 10.5)
    assert taken == ["tok_1"] * 10


async def test_programs_read_what_was_typed_a_moment_ago(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"old\n")
        async with editing(api, session_id) as ada:
            await ada.sees("old")
            await ada.type(0, "new ")
            await ada.connection.send('{"type":"ping"}')
            await ada.until("pong")
            path = f"{V1}/sessions/{session_id}/commands"
            ran = await api.post(path, json={"command": "cat a.txt"})
            assert ran.json()["stdout"] == "new old\n", ran.text


@pytest.mark.parametrize("frames", [("cat a.txt\r",), ("cat a", ".txt", "\r")])
async def test_a_command_in_a_terminal_reads_what_was_typed_a_moment_ago(
    tmp_path: Path, frames: tuple[str, ...]
) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"old\n")
        made = await api.post(f"{V1}/sessions/{session_id}/terminals", json={})
        async with (
            editing(api, session_id) as ada,
            screen(api, session_id, made.json()["id"]) as terminal,
        ):
            await terminal.see(r"\$ ")
            await ada.sees("old")
            await ada.type(0, "new ")
            await ada.connection.send('{"type":"ping"}')
            await ada.until("pong")
            for frame in frames:
                await terminal.type(frame)
            assert (await terminal.see(r"(new )?old")).group() == b"new old"


async def test_what_was_typed_before_the_end_of_a_session_is_kept(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session()
        await put(api, session_id, "a.txt", b"old\n")
        async with editing(api, session_id) as ada:
            await ada.sees("old")
            await ada.type(0, "new ")
            await ada.connection.send('{"type":"ping"}')
            await ada.until("pong")
            await api.post(f"{V1}/sessions/{session_id}/inputs", json={"type": "end"})
            await api.until(session_id, "ended")
        assert await content(api, session_id) == b"new old\n"
