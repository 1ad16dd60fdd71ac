"""The debugger over HTTP, on real programs in a real jail."""

import pytest

from tests.gateway.api_server import V1, Api, eventually

pytestmark = pytest.mark.anyio
PROGRAM = b"""\
class Basket:
    def __init__(self):
        self.items = ["apple", "pear"]


def total(basket, factor):
    count = len(basket.items)
    count = count * factor
    return count


print("begin")
print("total", total(Basket(), 21))
"""


@pytest.fixture
async def url(api: Api) -> str:
    return f"{V1}/sessions/{await api.ready_session(purpose='debugging')}"


async def test_a_python_program_stops_steps_and_shows_its_variables(api: Api, url: str) -> None:
    await api.put(f"{url}/files/shop.py", content=PROGRAM)
    lines = {"path": "shop.py", "breakpoints": [{"line": 8}]}
    assert (await api.put(f"{url}/debugger/breakpoints", json=lines)).status_code == 200
    started = await api.post(f"{url}/debugger", json={"path": "shop.py", "wait_s": 60})
    state = started.json()
    assert (started.status_code, state["status"], state["reason"]) == (201, "stopped", "breakpoint"), state
    assert [(each["name"], each["path"], each["line"]) for each in state["frames"]] == [
        ("total", "shop.py", 8),
        ("<module>", "shop.py", 13),
    ]
    assert state["breakpoints"][0]["breakpoints"][0]["verified"]
    frame = state["frames"][0]["id"]
    scopes = (await api.get(f"{url}/debugger/variables?frame={frame}")).json()["items"]
    assert scopes[0]["name"] == "Locals"
    found = (await api.get(f"{url}/debugger/variables?reference={scopes[0]['reference']}")).json()["items"]
    shown = {each["name"]: each for each in found}
    assert (shown["count"]["value"], shown["factor"]["type"]) == ("2", "int")
    parts = (await api.get(f"{url}/debugger/variables?reference={shown['basket']['reference']}")).json()
    assert "items" in [each["name"] for each in parts["items"]]
    stepped = await api.post(f"{url}/debugger/control", json={"action": "next", "wait_s": 60})
    assert (stepped.json()["reason"], stepped.json()["frames"][0]["line"]) == ("step", 9), stepped.json()
    result = await api.post(f"{url}/debugger/evaluate", json={"expression": "count + 1"})
    assert (result.json()["value"], result.json()["type"]) == ("43", "int")
    wrong = await api.post(f"{url}/debugger/evaluate", json={"expression": "no_such"})
    assert wrong.status_code == 400 and "NameError" in wrong.json()["detail"]
    ended = (await api.post(f"{url}/debugger/control", json={"action": "continue", "wait_s": 60})).json()
    assert (ended["status"], ended["exit_code"]) == ("ended", 0), ended
    events = await api.events(url.rpartition("/")[2])
    printed = "".join(each["text"] for each in events if each["type"] == "debug.printed")
    assert printed == "begin\ntotal 42\n"
    kinds = [each["type"] for each in events if each["type"].startswith("debug.")]
    assert [kind for kind in kinds if kind != "debug.printed"] == [
        "debug.breakpoints_changed",
        "debug.started",
        "debug.stopped",
        "debug.continued",
        "debug.stopped",
        *("debug.evaluated", "debug.evaluated"),
        "debug.continued",
        "debug.ended",
    ]


async def test_one_drives_a_test_and_others_watch_until_they_take_over(api: Api, url: str) -> None:
    code = b"import unittest\nclass Shop(unittest.TestCase):\n    def test_it(self):\n        self.n = 1\n"
    await api.put(f"{url}/files/test_shop.py", content=code)
    session_id = url.rpartition("/")[2]
    member, observer = await api.as_user("mia"), await api.as_user("otto")
    for name, role in (("mia", "member"), ("otto", "observer")):
        shared = await api.put(f"{url}/shares/{name}", json={"role": role})
        assert shared.status_code < 300, shared.text
    debugger = f"{V1}/sessions/{session_id}/debugger"
    lines = {"path": "test_shop.py", "breakpoints": [{"line": 4}]}
    assert (await observer.put(f"{debugger}/breakpoints", json=lines)).status_code == 403
    assert (await member.put(f"{debugger}/breakpoints", json=lines)).status_code == 200
    wanted = {"path": "test_shop.py", "test": "Shop.test_it", "wait_s": 60}
    assert (await observer.post(debugger, json=wanted)).status_code == 403
    state = (await api.post(debugger, json={**wanted, "idle_s": 3600})).json()
    assert (state["status"], state["frames"][0]["line"]) == ("stopped", 4), state
    seen = (await observer.get(debugger)).json()
    assert (seen["driver"], seen["frames"]) == (state["driver"], state["frames"])
    assert (await observer.get(f"{debugger}/variables")).json()["items"][0]["name"] == "Locals"
    for act, body in (("evaluate", {"expression": "1"}), ("control", {"action": "next"})):
        for user in (member, observer):
            assert (await user.post(f"{debugger}/{act}", json=body)).status_code == 403
    assert (await observer.post(f"{debugger}/drive")).status_code == 403
    assert (await member.post(f"{debugger}/drive")).status_code == 200
    assert (await api.delete(debugger)).status_code == 403
    ended = await member.delete(debugger)
    assert (ended.status_code, ended.json()["status"]) == (200, "ended")


async def test_a_stopped_program_that_nobody_uses_ends(api: Api, url: str) -> None:
    await api.put(f"{url}/files/shop.py", content=PROGRAM)
    wanted = {"path": "shop.py", "stop_on_entry": True, "idle_s": 1, "wait_s": 60}
    started = (await api.post(f"{url}/debugger", json=wanted)).json()
    assert started["status"] in ("stopped", "ended"), started

    async def ended() -> bool:
        return bool((await api.get(f"{url}/debugger")).json()["status"] == "ended")

    await eventually(ended)
    assert "nobody used it" in (await api.get(f"{url}/debugger")).json()["reason"]


async def test_a_hostile_interpreter_only_ends_its_own_debugger(api: Api, url: str) -> None:
    await api.put(f"{url}/files/shop.py", content=PROGRAM)
    hostile = b"#!/bin/sh\nprintf 'Content-Length: 9999999\\r\\n\\r\\n'\nexec cat /dev/zero\n"
    await api.put(f"{url}/files/.venv/bin/python", content=hostile)
    await api.post(f"{url}/commands", json={"command": "chmod +x .venv/bin/python"})
    lost = (await api.post(f"{url}/debugger", json={"path": "shop.py"})).json()
    assert lost["status"] == "ended" and "9999999 bytes" in lost["reason"], lost
    await api.post(f"{url}/commands", json={"command": "rm -r .venv"})
    secret = "ghp_" + "a1B2" * 9
    await api.put(f"{url}/files/keys.py", content=f"key = {secret!r}\nprint(key)\n".encode())
    lines = {"path": "keys.py", "breakpoints": [{"line": 2}]}
    await api.put(f"{url}/debugger/breakpoints", json=lines)
    state = (await api.post(f"{url}/debugger", json={"path": "keys.py", "wait_s": 60})).json()
    assert state["status"] == "stopped", state
    scope = (await api.get(f"{url}/debugger/variables")).json()["items"][0]["reference"]
    found = (await api.get(f"{url}/debugger/variables?reference={scope}")).text
    result = (await api.post(f"{url}/debugger/evaluate", json={"expression": "key"})).text
    await api.post(f"{url}/debugger/control", json={"action": "continue", "wait_s": 60})
    events = str([each for each in await api.events(url.rpartition("/")[2]) if "debug" in each["type"]])
    assert '"key"' in found and secret not in found + result + events
