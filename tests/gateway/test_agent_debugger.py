"""The agent's tool `debug`: it starts, steps and evaluates in the debugger that people see too."""

from pathlib import Path

import pytest

from tests.gateway.api_server import V1, eventually, serving
from tests.gateway.test_rest_debugger import PROGRAM

pytestmark = pytest.mark.anyio


def debug(**args: object) -> dict[str, object]:
    return {"calls": [{"tool": "debug", "args": args}]}


async def test_the_agent_stops_at_a_breakpoint_looks_and_steps(tmp_path: Path) -> None:
    replies = [
        debug(action="start", path="shop.py", breakpoints=["shop.py:8"]),
        debug(action="evaluate", expression="factor + count"),
        debug(action="next"),
        debug(action="continue"),
        debug(action="next"),
        {"text": "Done."},
    ]
    async with serving(tmp_path, replies=replies) as api:
        session = await api.ready_session(purpose="debugging")
        url = f"{V1}/sessions/{session}"
        await api.put(f"{url}/files/shop.py", content=PROGRAM)
        await api.post(f"{url}/inputs", json={"type": "prompt", "text": "Why 42?"})

        async def ended() -> bool:
            return any(each["type"] == "run.ended" for each in await api.events(session))

        await eventually(ended)
        events = await api.events(session)
    results = [each["text"] for each in events if each["type"] == "tool.returned"]
    assert "total shop.py:8\n  <module> shop.py:13" in results[0] and "  count = 2\n" in results[0]
    assert results[1] == "factor + count = 23"
    assert "total shop.py:9" in results[2] and "  count = 42\n" in results[2]
    assert "ended with exit code 0" in results[3] and "total 42" in results[3]
    assert results[4] == "No debugger runs. Start one."
    drivers = {each["by"] for each in events if each["type"] == "debug.started"}
    assert drivers == {"agent"}
