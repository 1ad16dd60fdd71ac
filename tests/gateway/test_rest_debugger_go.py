"""Go under the debugger, with a real Go in a real jail."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, serving
from tests.ordinary_user import packages

pytestmark = pytest.mark.anyio
PROGRAM = b"""\
package main

import (
	"example.com/shop/basket"
	"fmt"
)

var sold = 41

type price struct{ cents int }

func (p price) Twice() int { return p.cents * 2 }

func main() {
	full := basket.Basket{Items: map[string]int{"apple": 2, "pear": 3}}
	one := &price{cents: 7}
	sold++
	fmt.Println("total", basket.Total(full, 2), one.Twice())
	done := make(chan int)
	go func() { done <- sold }()
	fmt.Println(<-done)
	var missing map[string]int
	missing["x"] = sold
}
"""
BASKET = b"""\
package basket

type Basket struct{ Items map[string]int }

// Total adds up all prices.
func Total(basket Basket, factor int) int {
	count := 0
	for _, name := range []string{"apple", "pear"} {
		price := basket.Items[name]
		if price > 2 {
			count += price * factor
		} else {
			count += price
		}
	}
	return count
}
"""
TEST = b"""\
package basket

import "testing"

func TestTotal(t *testing.T) {
	for _, factor := range []int{1, 2} {
		t.Run([]string{"", "once", "twice"}[factor], func(t *testing.T) {
			if got := Total(Basket{map[string]int{"pear": 3}}, factor); got != 3*factor {
				t.Fatalf("got %d", got)
			}
		})
	}
}

func TestOther(t *testing.T) { t.Fatal("it ran") }
"""


@pytest.fixture(scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    toolchains = [str(Path(packages()) / "go")]
    async with serving(tmp_path_factory.mktemp("server"), jail={"toolchains": toolchains}) as opened:
        yield opened


@pytest.fixture(scope="module")
async def url(api: Api) -> str:
    """One session for all tests: each would compile Go's library again."""
    url = f"{V1}/sessions/{await api.ready_session(purpose='debugging')}"
    files = {"go.mod": b"module example.com/shop\n\ngo 1.21\n", "main.go": PROGRAM}
    files |= {"basket/basket.go": BASKET, "basket/basket_test.go": TEST}
    for path, content in files.items():
        assert (await api.put(f"{url}/files/{path}", content=content)).status_code < 300
    return url


async def read_variables(api: Api, url: str, **query: int) -> dict[str, dict[str, Any]]:
    found = (await api.get(f"{url}/debugger/variables", params=query)).json()["items"]
    return {each["name"]: each for each in found}


async def control(api: Api, url: str, action: str) -> Any:
    done = await api.post(f"{url}/debugger/control", json={"action": action, "wait_s": 60})
    assert done.status_code == 200, done.text
    return done.json()


async def started(api: Api, url: str, **wanted: Any) -> Any:
    """The state once the program has stopped or ended: the first start compiles much of the library."""
    begun = await api.post(f"{url}/debugger", json={"wait_s": 60, **wanted})
    assert begun.status_code == 201, begun.text
    return begun.json()


async def evaluated(api: Api, url: str, expression: str, **frame: int) -> str:
    result = await api.post(f"{url}/debugger/evaluate", json={"expression": expression, **frame})
    return str(result.json()["value"] if result.status_code == 200 else result.json()["detail"])


async def test_a_go_program_stops_steps_and_shows_its_variables(api: Api, url: str) -> None:
    lines = {"path": "basket/basket.go", "breakpoints": [{"line": 11, "condition": 'name == "pear"'}]}
    assert (await api.put(f"{url}/debugger/breakpoints", json=lines)).status_code == 200
    await api.put(f"{url}/debugger/breakpoints", json={"path": "main.go", "breakpoints": [{"line": 900}]})
    state = await started(api, url, path="main.go")
    assert (state["status"], state["reason"], state["language"]) == ("stopped", "breakpoint", "go"), state
    assert [(each["name"], each["path"], each["line"]) for each in state["frames"]] == [
        ("Total", "basket/basket.go", 11),
        ("main", "main.go", 18),
    ]
    verified = {each["path"]: each["breakpoints"][0]["verified"] for each in state["breakpoints"]}
    assert verified == {"basket/basket.go": True, "main.go": False}
    scopes = await read_variables(api, url)
    local = await read_variables(api, url, reference=scopes["Local"]["reference"])
    assert (local["count"]["value"], local["count"]["type"], local["price"]["value"]) == ("2", "int", "3")
    basket = await read_variables(api, url, reference=local["basket"]["reference"])
    assert basket["Items"]["value"] == 'map[string]int{"apple": 2, "pear": 3}'
    entries = await read_variables(api, url, reference=basket["Items"]["reference"])
    assert entries['["pear"]']["value"] == "3"
    outer = await read_variables(api, url, frame=2)
    package = await read_variables(api, url, reference=outer["Package"]["reference"])
    assert package["sold"]["value"] == "42"
    assert await evaluated(api, url, "count = price + 100") == "103"
    assert await evaluated(api, url, 'len(basket.Items) * 2 >= 4 && basket.Items["pear"] == 3') == "true"
    assert await evaluated(api, url, "one.Twice() + one.cents", frame=2) == "21"
    assert "undefined: missing" in await evaluated(api, url, "missing + 1")
    assert "functions cannot be called" in await evaluated(api, url, "panic(1)")
    stepped = await control(api, url, "next")
    assert (stepped["reason"], stepped["frames"][0]["line"]) == ("step", 16), stepped
    out = await control(api, url, "step_out")
    assert (out["reason"], out["frames"][0]["path"], out["frames"][0]["line"]) == ("step", "main.go", 19), out
    thrown = await control(api, url, "continue")
    assert (thrown["status"], thrown["reason"], thrown["frames"][0]["line"]) == ("stopped", "exception", 23)
    assert "assignment to entry in nil map" in thrown["text"]
    ended = await control(api, url, "continue")
    assert (ended["status"], ended["exit_code"]) == ("ended", 2), ended
    events = [each for each in await api.events(url.rpartition("/")[2]) if each["type"].startswith("debug.")]
    printed = "".join(each["text"] for each in events if each["type"] == "debug.printed")
    assert printed.startswith("total 109 14\n42\n"), printed
    stops = [(each["reason"], each["line"]) for each in events if each["type"] == "debug.stopped"]
    assert stops == [("breakpoint", 11), ("step", 16), ("step", 19), ("exception", 23)]
    listed = (await api.get(f"{url}/files")).json()["items"]
    assert {each["path"] for each in listed} == {"go.mod", "main.go", "basket"}, "the workspace is unchanged"


async def test_one_go_test_stops_inside_the_code_it_calls(api: Api, url: str) -> None:
    lines = {"path": "basket/basket_test.go", "breakpoints": [{"line": 8}]}
    await api.put(f"{url}/debugger/breakpoints", json=lines)
    await api.put(f"{url}/debugger/breakpoints", json={"path": "basket/basket.go", "breakpoints": []})
    state = await started(
        api, url, path="basket/basket_test.go", test="example.com/shop/basket.TestTotal/twice"
    )
    assert (state["status"], state["frames"][0]["line"]) == ("stopped", 8), state
    inside = await control(api, url, "step_in")
    assert (inside["frames"][0]["path"], inside["frames"][0]["line"]) == ("basket/basket.go", 7), inside
    ended = await control(api, url, "continue")
    assert (ended["status"], ended["exit_code"]) == ("ended", 0), ended


async def test_go_code_that_does_not_compile_says_where(api: Api, url: str) -> None:
    none = await api.post(f"{url}/debugger", json={"path": "basket/basket_test.go", "test": "total"})
    assert none.status_code == 400 and "TestName" in none.json()["detail"]
    await api.put(f"{url}/files/basket/basket.go", content=BASKET.replace(b"return count", b"return cuont"))
    refused = await api.post(f"{url}/debugger", json={"path": "main.go", "wait_s": 60})
    assert refused.status_code == 503, refused.text
    assert "basket.go:16:" in refused.json()["detail"] and "undefined: cuont" in refused.json()["detail"]
    await api.put(f"{url}/files/basket/basket.go", content=BASKET)
    library = await api.post(f"{url}/debugger", json={"path": "basket/basket.go"})
    assert "debug one of its tests" in library.json()["detail"]
    await api.put(f"{url}/files/other/go.mod", content=b"")
    broken = await api.post(f"{url}/debugger", json={"path": "other/a.go"})
    assert broken.status_code >= 400, broken.text
