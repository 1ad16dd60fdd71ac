"""JavaScript and TypeScript under the debugger, with a real Node in a real jail."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, serving
from tests.node_installation import node_home

pytestmark = pytest.mark.anyio
TYPESCRIPT = b"""\
class Basket {
  items: Map<string, number> = new Map([["apple", 2], ["pear", 3]]);
}

function total(basket: Basket, factor: number): number {
  let count: number = 0;
  for (const [name, price] of basket.items) {
    count += price * factor;
  }
  return count;
}

console.log("total", total(new Basket(), 2));
throw new TypeError("no more pears");
"""
TEST = b"""\
const test = require("node:test");
const { double } = require("./double.js");

test("halves (not this one)", () => { throw new Error("it ran"); });
test("doubles (this one)", () => {
  const four = double(2);
  if (four !== 4) throw new Error("wrong");
});
"""


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    toolchains = [str(node_home())]
    async with serving(tmp_path_factory.mktemp("server"), jail={"toolchains": toolchains}) as opened:
        yield opened


@pytest.fixture
async def url(api: Api) -> str:
    return f"{V1}/sessions/{await api.ready_session(purpose='debugging')}"


async def read_variables(api: Api, url: str, **query: int) -> dict[str, dict[str, Any]]:
    found = (await api.get(f"{url}/debugger/variables", params=query)).json()["items"]
    return {each["name"]: each for each in found}


async def control(api: Api, url: str, action: str) -> Any:
    done = await api.post(f"{url}/debugger/control", json={"action": action, "wait_s": 60})
    assert done.status_code == 200, done.text
    return done.json()


async def test_a_typescript_program_stops_steps_and_shows_its_variables(api: Api, url: str) -> None:
    await api.put(f"{url}/files/src/shop.ts", content=TYPESCRIPT)
    lines = {
        "path": "src/shop.ts",
        "breakpoints": [{"line": 8, "condition": "name === 'pear'"}, {"line": 900}],
    }
    assert (await api.put(f"{url}/debugger/breakpoints", json=lines)).status_code == 200
    state = (await api.post(f"{url}/debugger", json={"path": "src/shop.ts", "wait_s": 60})).json()
    assert (state["status"], state["reason"], state["language"]) == ("stopped", "breakpoint", "typescript"), (
        state
    )
    assert [(each["name"], each["path"], each["line"]) for each in state["frames"]] == [
        ("total", "src/shop.ts", 8),
        ("(anonymous)", "src/shop.ts", 13),
    ], state
    assert [each["verified"] for each in state["breakpoints"][0]["breakpoints"]] == [True, False]
    scopes = await read_variables(api, url)
    block = await read_variables(api, url, reference=scopes["Block"]["reference"])
    assert (block["name"]["value"], block["price"]["value"]) == ('"pear"', "3")
    local = await read_variables(api, url, reference=scopes["Local"]["reference"])
    assert (local["count"]["value"], local["count"]["type"]) == ("4", "number")
    basket = await read_variables(api, url, reference=local["basket"]["reference"])
    assert basket["items"]["value"] == "Map(2) {apple => 2, pear => 3}"
    entries = await read_variables(api, url, reference=basket["items"]["reference"])
    assert "[[Entries]]" in entries
    result = await api.post(f"{url}/debugger/evaluate", json={"expression": "count = price + 100"})
    assert (result.json()["value"], result.json()["type"]) == ("103", "number")
    wrong = await api.post(f"{url}/debugger/evaluate", json={"expression": "missing + 1"})
    assert wrong.status_code == 400 and "ReferenceError" in wrong.json()["detail"]
    stepped = await control(api, url, "next")
    assert (stepped["reason"], stepped["frames"][0]["line"]) == ("step", 7), stepped
    out = await control(api, url, "step_out")
    assert (out["reason"], out["frames"][0]["line"]) == ("step", 13), out
    thrown = await control(api, url, "continue")
    assert (thrown["status"], thrown["reason"], thrown["frames"][0]["line"]) == ("stopped", "exception", 14)
    assert "no more pears" in thrown["text"]
    ended = await control(api, url, "continue")
    assert (ended["status"], ended["exit_code"]) == ("ended", 1), ended
    events = [each for each in await api.events(url.rpartition("/")[2]) if each["type"].startswith("debug.")]
    printed = "".join(each["text"] for each in events if each["type"] == "debug.printed")
    assert printed.startswith("total 109\n") and "Debugger" not in printed, printed
    stops = [(each["reason"], each["line"]) for each in events if each["type"] == "debug.stopped"]
    assert stops == [("breakpoint", 8), ("step", 7), ("step", 13), ("exception", 14)]


async def test_one_javascript_test_stops_inside_the_code_it_calls(api: Api, url: str) -> None:
    code = b"exports.double = (n) => {\n  const twice = n * 2;\n  return twice;\n};\n"
    await api.put(f"{url}/files/app/double.js", content=code)
    await api.put(f"{url}/files/app/package.json", content=b"{}")
    await api.put(f"{url}/files/app/double.test.js", content=TEST)
    lines = {"path": "app/double.test.js", "breakpoints": [{"line": 6}]}
    await api.put(f"{url}/debugger/breakpoints", json=lines)
    wanted = {"path": "app/double.test.js", "test": "doubles (this one)", "wait_s": 60}
    state = (await api.post(f"{url}/debugger", json=wanted)).json()
    assert (state["status"], state["frames"][0]["line"]) == ("stopped", 6), state
    inside = await control(api, url, "step_in")
    assert (inside["frames"][0]["path"], inside["frames"][0]["line"]) == ("app/double.js", 2), inside
    assert all(not each["path"] for each in inside["frames"] if each["outside"]), (
        "paths outside are not shown"
    )
    ended = await control(api, url, "continue")
    assert (ended["status"], ended["exit_code"]) == ("ended", 0), ended


async def test_a_javascript_program_that_floods_or_breaks_out_of_its_adapter_ends(api: Api, url: str) -> None:
    flood = b"for (let i = 0; i < 300000; i++) console.log('x'.repeat(30));\nprocess.kill(process.ppid, 9);\n"
    await api.put(f"{url}/files/flood.js", content=flood)
    state = (await api.post(f"{url}/debugger", json={"path": "flood.js", "wait_s": 60})).json()
    while state["status"] == "running":
        state = (await api.get(f"{url}/debugger", params={"wait_s": 60})).json()
    assert state["status"] == "ended", state
    events = [each for each in await api.events(url.rpartition("/")[2]) if each["type"] == "debug.printed"]
    assert 0 < sum(len(each["text"]) for each in events) < 3_000_000
    assert (await api.put(f"{url}/files/a.rs", content=b"fn main() {}")).status_code < 300
    refused = await api.post(f"{url}/debugger", json={"path": "a.rs"})
    assert refused.status_code == 400 and "JavaScript" in refused.json()["detail"]
