"""Test runs over HTTP."""

import pytest

from tests.gateway.api_server import V1, Api, eventually

pytestmark = pytest.mark.anyio
WRONG, RIGHT = b"def add(a, b):\n    return a - b\n", b"def add(a, b):\n    return a + b\n"
TESTS = (
    b"import unittest\nfrom adding import add\nclass Adding(unittest.TestCase):\n"
    b"    def test_add(self):\n        self.assertEqual(add(2, 3), 5)\n"
    b"    def test_zero(self):\n        self.assertEqual(add(0, 0), 0)\n"
)
SLOW = b"import time, unittest\nclass S(unittest.TestCase):\n    def test_a(self): time.sleep(600)\n"
ADD = "test_adding.Adding.test_add"


@pytest.fixture
async def url(api: Api) -> str:
    return f"{V1}/sessions/{await api.ready_session(purpose='tests')}"


async def test_tests_run_and_their_results_are_read_and_compared(api: Api, url: str) -> None:
    await api.put(f"{url}/files/adding.py", content=WRONG)
    await api.put(f"{url}/files/test_adding.py", content=TESTS)
    first = await api.post(f"{url}/tests", json={"wait_s": 60})
    assert (first.status_code, first.json()["state"], first.json()["failed"]) == (200, "failed", 1)
    await api.put(f"{url}/files/adding.py", content=RIGHT)
    started = await api.post(f"{url}/tests")
    assert (started.status_code, started.json()["state"]) == (202, "running")
    run = f"{url}/tests/{started.json()['id']}"

    async def ended() -> bool:
        return bool((await api.get(run)).json()["ended_ms"])

    await eventually(ended)
    compared = (await api.get(f"{run}/comparison")).json()
    assert (compared["fixed"], compared["broke_count"], compared["unchanged"]) == (
        [{"suite": "unittest", "name": ADD}],
        0,
        1,
    )
    assert (await api.get(f"{run}/comparison", params={"with": first.json()["id"]})).json() == compared
    failed = (await api.get(f"{url}/tests/{first.json()['id']}/cases?outcome=failed")).json()["items"]
    assert [(case["name"], case["file"], case["line"]) for case in failed] == [(ADD, "test_adding.py", 5)]
    assert failed[0]["message"].startswith("AssertionError: -1 != 5")
    page = await api.get(f"{run}/cases?limit=1")
    rest = await api.get(page.links["next"]["url"])
    assert len(page.json()["items"]) == 1 and rest.json()["items"][0]["number"] == 1
    history = (await api.get(f"{url}/tests/history", params={"name": ADD})).json()["items"]
    assert [past["outcome"] for past in history] == ["passed", "failed"]
    runs = (await api.get(f"{url}/tests")).json()["items"]
    assert [each["id"] for each in runs] == [started.json()["id"], first.json()["id"]]


async def test_tests_are_listed_without_a_run(api: Api, url: str) -> None:
    assert (await api.get(f"{url}/tests/suites")).json() == {"items": [], "next": None}
    await api.put(f"{url}/files/test_adding.py", content=TESTS)
    await api.put(f"{url}/files/server/go.mod", content=b"module a\n")
    await api.put(f"{url}/files/server/a_test.go", content=b"package a\n")
    found = (await api.get(f"{url}/tests/suites")).json()["items"]
    assert found == [
        {"name": "go test", "command": "cd server && go test", "directory": "server"},
        {"name": "unittest", "command": "python3 -m unittest", "directory": ""},
    ]
    assert (await api.get(f"{url}/tests")).json()["items"] == []


async def test_a_run_is_compared_with_the_last_result_of_each_test(api: Api, url: str) -> None:
    await api.put(f"{url}/files/adding.py", content=RIGHT)
    await api.put(f"{url}/files/test_adding.py", content=TESTS)
    for wanted in ({}, {"tests": [ADD]}):
        assert (await api.post(f"{url}/tests", json={**wanted, "wait_s": 60})).json()["state"] == "passed"
    some = (await api.get(f"{url}/tests/last/comparison")).json()
    assert (some["unchanged"], some["added"], some["removed"]) == (1, [], [])
    await api.put(f"{url}/files/adding.py", content=WRONG)
    await api.post(f"{url}/tests", json={"wait_s": 60})
    every = (await api.get(f"{url}/tests/last/comparison")).json()
    assert (every["broke_count"], every["unchanged"], every["added"]) == (1, 1, [])


async def test_a_run_is_cancelled_and_a_second_one_refused(api: Api, url: str) -> None:
    await api.put(f"{url}/files/test_slow.py", content=SLOW)
    run = (await api.post(f"{url}/tests", json={"watch": True})).json()
    refused = await api.post(f"{url}/tests")
    assert (refused.status_code, run["id"] in refused.json()["detail"]) == (409, True)
    assert (await api.delete(f"{url}/tests/watch")).status_code == 204
    assert (await api.post(f"{url}/tests/{run['id']}/cancel")).status_code == 204

    async def cancelled() -> bool:
        return bool((await api.get(f"{url}/tests/last")).json()["state"] == "cancelled")

    await eventually(cancelled)
    assert (await api.post(f"{url}/tests/{run['id']}/cancel")).status_code == 409


async def test_odd_requests_are_refused(api: Api, url: str) -> None:
    assert (await api.post(f"{url}/tests")).status_code == 404  # no tests
    await api.put(f"{url}/files/test_adding.py", content=TESTS)
    for body, status in (
        ({"files": ["../x"]}, 400),
        ({"files": ["-x"]}, 400),
        ({"files": ["none.py"]}, 404),
        ({"failed": True}, 400),
        ({"timeout_s": 0}, 422),
        ({"tests": ["a"] * 501}, 422),
        ({"all": True}, 422),
    ):
        assert (await api.post(f"{url}/tests", json=body)).status_code == status, body
    assert (await api.get(f"{url}/tests/tst_none")).status_code == 404
    assert (await api.get(f"{url}/tests/last/cases?outcome=odd")).status_code == 422
    assert (await api.get(f"{url}/tests/history")).status_code == 422


async def test_other_users_see_and_start_nothing(api: Api, url: str) -> None:
    bob = await api.as_user("bob")
    for path in (
        "tests",
        "tests/last",
        "tests/last/cases",
        "tests/last/comparison",
        "tests/history?name=a",
        "tests/suites",
    ):
        assert (await bob.get(f"{url}/{path}")).status_code == 404
    assert (await bob.post(f"{url}/tests")).status_code == 404
    assert (await bob.delete(f"{url}/tests/watch")).status_code == 404
    assert (await bob.post(f"{url}/tests/last/cancel")).status_code == 404
