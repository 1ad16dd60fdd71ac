"""Recordings of terminals by REST: while they run, when they have ended, and for those who may see them."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, serving
from tests.gateway.stream_clients import screen

pytestmark = pytest.mark.anyio


async def recording(api: Api, session_id: str, terminal: str) -> tuple[dict[str, Any], list[list[Any]]]:
    found = await api.get(f"{V1}/sessions/{session_id}/terminals/{terminal}/cast")
    assert found.status_code == 200, found.text
    assert found.headers["content-type"] == "application/x-asciicast"
    header, *events = [json.loads(line) for line in found.text.splitlines()]
    return header, events


def text(events: list[list[Any]], code: str) -> str:
    return "".join(event[2] for event in events if event[1] == code)


async def test_a_terminal_is_recorded_until_now_and_after_its_end(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="terminals")
        opened = await api.post(f"{V1}/sessions/{session_id}/terminals", json={"columns": 90, "rows": 30})
        terminal = opened.json()["id"]
        async with screen(api, session_id, terminal) as mine:
            await mine.see("133;B")
            await mine.type("printf 'gr\\303\\274n\\033[31m'; echo $((40 + 2))\r")
            await mine.see(r"42\r\n.*133;B")
            live = await recording(api, session_id, terminal)
            await mine.connection.send('{"type":"resize","columns":77,"rows":20}')
            await mine.type("exit 3\r")
            await mine.receive("exit")
        ended = await recording(api, session_id, terminal)
        while ended[1][-1][1] != "x":  # viewers hear of the end before it is recorded
            ended = await recording(api, session_id, terminal)
        await api.give(session_id, type="end")
        await api.until(session_id, "ended")
        assert await recording(api, session_id, terminal) == ended
        header, events = ended
        assert header["term"] == {"cols": 90, "rows": 30, "type": "xterm-256color"}
        assert live == (header, events[: len(live[1])])
        shown = re.sub(rb"\x1b\]133;[^\x1b]*\x1b\\", b"", mine.printed)
        assert text(events, "o") == shown.decode()
        assert text(events, "i") == "printf 'gr\\303\\274n\\033[31m'; echo $((40 + 2))\rexit 3\r"
        assert [event[2] for event in events if event[1] == "m"] == [
            "printf 'gr\\303\\274n\\033[31m'; echo $((40 + 2))",
            "exit 3",
        ]
        assert [event[1:] for event in events if event[1] in "rx"] == [["r", "77x20"], ["x", "3"]]
        assert all(event[0] >= 0 for event in events)


async def test_ids_of_terminals_are_never_used_again(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="terminals")
        first = await api.post(f"{V1}/sessions/{session_id}/terminals")
        await api.server.host.close(session_id, reason="test")  # type: ignore[arg-type]
        second = await api.post(f"{V1}/sessions/{session_id}/terminals")
        assert (first.json()["id"], second.json()["id"]) == ("1", "2")
        assert (await recording(api, session_id, "1"))[0] != (await recording(api, session_id, "2"))[0]


async def test_only_readers_of_the_session_get_a_recording(tmp_path: Path) -> None:
    async with serving(tmp_path) as api:
        session_id = await api.ready_session(purpose="terminals")
        await api.post(f"{V1}/sessions/{session_id}/terminals")
        eve = await api.as_user("eve")
        for who, terminal in ((eve, "1"), (api, "2"), (api, "x%2f..%2fy"), (api, "%1b[31m")):
            refused = await who.get(f"{V1}/sessions/{session_id}/terminals/{terminal}/cast")
            assert refused.status_code == 404
        assert (
            "has no terminal '2'"
            in (await api.get(f"{V1}/sessions/{session_id}/terminals/2/cast")).json()["detail"]
        )
        assert (
            await (await api.as_nobody()).get(f"{V1}/sessions/{session_id}/terminals/1/cast")
        ).status_code == 401
