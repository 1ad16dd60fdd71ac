"""Given code over HTTP: `POST /api/v1/execute`."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.api_server import V1, Api, serving

pytestmark = pytest.mark.anyio
DOUBLE = {"solution.py": "def double(n):\n    print('called')\n    return 2 * n\n"}
CASE = {"name": "two", "call": "double", "args": [2], "expected": 4}


def body(**changes: Any) -> dict[str, Any]:
    return {"language": "python", "files": DOUBLE, "tests": [CASE], **changes}


async def test_code_is_run_and_each_case_is_reported(api: Api) -> None:
    wrong = {"name": "wrong", "call": "double", "args": [2], "expected": 5}
    ran = await api.post(f"{V1}/execute", json=body(tests=[CASE, wrong]))
    assert ran.status_code == 200, ran.text
    found = ran.json()
    assert (found["ok"], found["passed"], found["total"]) == (False, 1, 2)
    first, second = found["cases"]
    assert (first["status"], first["actual"], first["stdout"]) == ("passed", 4, "called\n")
    assert (second["status"], second["message"]) == ("failed", "Expected 5, but got 4.")
    assert first["time_s"] > 0 and first["memory_bytes"] > 0


async def test_a_member_may_run_code_and_others_may_not(api: Api) -> None:
    assert (await (await api.as_user("member")).post(f"{V1}/execute", json=body())).status_code == 200
    for name, role in (("onlooker", "observer"), ("judge", "assessor"), ("guest", "candidate")):
        refused = await (await api.as_user(name, role)).post(f"{V1}/execute", json=body())
        assert refused.status_code == 403, (role, refused.text)
    assert (await (await api.as_nobody()).post(f"{V1}/execute", json=body())).status_code == 401


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"language": "cobol"}, "language"),
        ({"files": {}}, "no files"),
        ({"files": {"../../etc/passwd": "x"}}, "cannot be written"),
        ({"files": {"other.py": "", "more.py": ""}}, "There is no file solution.py"),
        ({"tests": []}, "tests"),
        ({"tests": [CASE, CASE]}, "Two cases have the name 'two'"),
        ({"tests": [{"name": "x"}]}, "give one of call, create and stdin"),
        ({"tests": [{**CASE, "call": "__import__('os')"}]}, "call"),
        ({"timeout_s": -1}, "timeout_s"),
        ({"memory_bytes": 1000}, "no toolchain starts with less"),
        ({"module": "../x"}, "module"),
        ({"stdin": "x"}, "stdin"),
    ],
)
async def test_a_request_that_cannot_be_run_is_refused(api: Api, changes: dict[str, Any], words: str) -> None:
    refused = await api.post(f"{V1}/execute", json=body(**changes))
    assert refused.status_code in (400, 422), refused.text
    assert words in refused.text, refused.text


async def test_a_number_beyond_64_bits_does_not_break_the_response(api: Api) -> None:
    files = {"solution.py": "def double(n):\n    return 2 ** 80\n"}
    ran = await api.post(f"{V1}/execute", json=body(files=files))
    assert ran.status_code == 200, ran.text
    assert ran.json()["cases"][0]["actual"] == str(2**80)


async def test_lone_surrogates_in_the_output_do_not_break_the_response(api: Api) -> None:
    files = {"solution.py": "def double(n):\n    return '\\udc80'\n"}
    ran = await api.post(f"{V1}/execute", json=body(files=files))
    assert ran.status_code == 200, ran.text
    assert ran.json()["cases"][0]["status"] == "failed"


async def test_the_response_is_bounded(tmp_path: Path) -> None:
    files = {"solution.py": "def double(n):\n    print('x' * 2_000_000)\n    return n\n"}
    tests = [{"name": str(number), "call": "double", "args": [1]} for number in range(20)]
    async with serving(tmp_path, execution={"timeout_s": 300}) as api:  # of all cases together
        ran = await api.post(f"{V1}/execute", json=body(files=files, tests=tests))
    assert ran.status_code == 200 and len(ran.content) < 17 * 1024 * 1024
    assert all(case["status"] == "passed" and case["is_output_cut"] for case in ran.json()["cases"])


async def test_requests_at_once_wait_for_each_other(api: Api) -> None:
    ran = await asyncio.gather(*(api.post(f"{V1}/execute", json=body()) for _ in range(6)))
    assert [each.json()["ok"] for each in ran] == [True] * 6


async def test_the_languages_are_listed(api: Api) -> None:
    found = (await api.get(f"{V1}/execute/languages")).json()["items"]
    assert [each["language"] for each in found] == ["python", "javascript", "typescript", "go"]
    assert all(each["is_available"] and each["version"] for each in found)
