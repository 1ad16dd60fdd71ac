"""Secrets in terminals: hidden in the log and from readers, visible to writers."""

import asyncio
import re
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from hutch.jail.shared_terminal import RING_BYTES
from hutch.sessions.terminal_masking import UNKNOWN_BYTES
from hutch.store.vault import Vault
from tests.gateway.api_server import V1, Api, serving
from tests.gateway.stream_clients import screen
from tests.gateway.test_stream_terminal import opened, share

pytestmark = pytest.mark.anyio

VALUE = "Zq7-KvRwtHnmxuE+93kxl/Pmw0T"
HALF = len(VALUE) // 2
PRINTED = {
    "cat": "cat it",
    "byte by byte": "for i in $(seq 0 26); do printf %s \"${V:$i:1}\"; sleep 0.01; done; echo",
    "two writes": "printf %s \"${V:0:13}\"; sleep 0.5; echo \"${V:13}\"",
    "after three letters": "printf %s \"${V:0:3}\"; sleep 0.5; echo \"${V:3}\"",
    "colours": "grep --color=always 'R.*m' it",
    "carriage return": "printf '%s\\r%s\\n' \"${V:0:13}\" \"${V:13}\"",
    "cursor": "printf '%s\\033[1C\\033[1D%s\\n' \"${V:0:13}\" \"${V:13}\"",
    "rows": "fold -w 10 it",
    "spelled": "sed 's/+/%2b/; s:/:%2F:' it",
}  # fmt: skip


def store_secret(api: Api) -> None:
    paths = api.server.loaded.paths
    Vault(paths.vault, paths.vault_keys).set("forge_token", VALUE)


def parts_of(text: bytes) -> list[str]:
    """Parts of the value, five characters long, with any escapes and line breaks between them."""
    plain = re.sub(rb"\x1b\[[0-9;]*[A-Za-z]|[\r\n]", b"", text).decode(errors="replace")
    return [VALUE[at : at + 5] for at in range(len(VALUE) - 4) if VALUE[at : at + 5] in plain]


@pytest.mark.parametrize("way", PRINTED)
async def test_only_writers_of_a_terminal_see_a_secret_in_it(tmp_path: Path, way: str) -> None:
    async with serving(tmp_path) as api:
        store_secret(api)
        session_id, terminal = await opened(api)
        eve = await share(api, session_id, "eve", "observer")
        written = await api.put(f"{V1}/sessions/{session_id}/files/it", content=f"{VALUE}\n".encode())
        assert written.status_code == 201, written.text
        async with screen(api, session_id, terminal) as mine, screen(eve, session_id, terminal) as eves:
            await mine.type("V=$(cat it); PS1=\n")
            await mine.type(f"{PRINTED[way]}; echo done-$((40 + 2))\n")
            await mine.see(r"done-42\r\n")
            await eves.see(r"done-42\r\n")
            assert parts_of(mine.printed)  # it was there to be seen
            assert parts_of(eves.printed) == []
            assert len(eves.printed) == len(mine.printed)  # so that numbers of bytes mean the same to both
            seen = len(eves.printed)
        for at in (0, *range(seen - 60, seen, 7)):
            async with screen(eve, session_id, terminal, f"?resume={at}") as again:
                await again.see(f".{{{seen - at}}}")
                assert parts_of(again.printed) == []
        closed = await api.delete(f"{V1}/sessions/{session_id}/terminals/{terminal}")
        assert closed.status_code in (200, 204), closed.text
        events = await api.events(session_id)
        printed = "".join(each["text"] for each in events if each["type"] == "terminal.printed")
        assert "done-42" in printed
        assert parts_of(printed.encode()) == []
        record = await api.get(f"{V1}/sessions/{session_id}/record")
        with zipfile.ZipFile(BytesIO(record.content)) as archive:
            whole = b"".join(archive.read(name) for name in archive.namelist())
        assert VALUE.encode() not in whole


async def test_a_typed_secret_shows_at_most_its_first_characters(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store_secret(api)
        session_id = await api.ready_session()
        made = await api.post(f"{V1}/sessions/{session_id}/terminals", json={"columns": 20, "rows": 10})
        terminal = made.json()["id"]
        eve = await share(api, session_id, "eve", "observer")
        async with screen(api, session_id, terminal) as mine, screen(eve, session_id, terminal) as eves:
            await mine.type("PS1='ready> '\n")
            await mine.see(r"'ready> '.*ready> ")
            await mine.type(": ")
            for letter in VALUE:  # in a narrow terminal, so that the shell wraps it
                await mine.type(letter)
                await asyncio.sleep(0.03)
            await mine.type("\necho done-$((40 + 2))\n")
            await mine.see(r"done-42\r\n")
            await eves.see(r"done-42\r\n")
            assert parts_of(mine.printed)
            assert parts_of(eves.printed) == []
        await api.delete(f"{V1}/sessions/{session_id}/terminals/{terminal}")
        events = await api.events(session_id)
        printed = "".join(each["text"] for each in events if each["type"] == "terminal.printed")
        assert "done-42" in printed
        assert parts_of(printed.encode()) == []


async def test_half_a_value_at_the_beginning_of_the_ring_is_not_shown(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store_secret(api)
        session_id, terminal = await opened(api)
        eve = await share(api, session_id, "eve", "observer")
        await api.put(f"{V1}/sessions/{session_id}/files/it", content=VALUE.encode())
        async with screen(api, session_id, terminal) as mine:
            await mine.type("PS1= ; clear; cat it; echo start-$((40 + 2))\n")
            found = await mine.see(r"start-42\r\n")
            place = mine.printed.index(VALUE.encode(), mine.printed.index(b"\x1b["))
            fill = RING_BYTES - (len(mine.printed) - place) + HALF
            await mine.type(f"head -c {fill - 200} /dev/zero | tr '\\0' x; echo; echo all-$((40 + 2))\n")
            await mine.see(r"all-42\r\n")
            assert found
        async with screen(eve, session_id, terminal, "?resume=0") as eves:
            hello = await eves.receive("hello")
            await eves.see(r"all-42\r\n")
            assert hello["seq"] == hello["missed_bytes"] >= UNKNOWN_BYTES
            assert parts_of(eves.printed) == []


async def test_a_client_that_lost_write_access_sees_no_more_secrets(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        store_secret(api)
        session_id, terminal = await opened(api)
        await api.put(f"{V1}/sessions/{session_id}/files/it", content=VALUE.encode())
        bob = await share(api, session_id, "bob", "member")
        async with screen(api, session_id, terminal) as mine, screen(bob, session_id, terminal) as bobs:
            await mine.type("PS1= ; cat it; echo first-$((40 + 2))\n")
            await bobs.see(r"first-42\r\n")
            before = bobs.printed
            assert parts_of(before)
            await share(api, session_id, "bob", "observer")
            await bobs.receive("writer")
            await bobs.receive("writer")
            await mine.type("cat it; echo second-$((40 + 2))\n")
            await bobs.see(r"second-42\r\n")
            assert parts_of(bobs.printed[len(before) :]) == []
