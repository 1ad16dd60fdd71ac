"""Every error is a problem from one table, with a trace id; a bug reveals nothing else."""

import io
import json
import re
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from hutch import logs
from hutch.domain.errors import (
    BadRequest,
    Conflict,
    Denied,
    HutchError,
    LimitReached,
    NotFound,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
)
from hutch.domain.redaction import Redactor
from hutch.gateway.http_error_table import (
    CODES,
    LIMITS,
    KeyReused,
    PreconditionFailed,
    RangeNotSatisfiable,
    error_status,
)
from hutch.gateway.problem_json import handle_problems
from hutch.gateway.trace_id_middleware import Traced
from hutch.store.event_log_interface import ErasedMeanwhile
from tests.gateway.api_server import V1, Api

pytestmark = pytest.mark.anyio

ERRORS = [
    (BadRequest("x"), 400, "bad_request"),
    (NotFound("x"), 404, "not_found"),
    (Conflict("x"), 409, "conflict"),
    (ErasedMeanwhile("x"), 409, "conflict"),
    (PreconditionFailed("x"), 412, "precondition_failed"),
    (RangeNotSatisfiable("x", size=1), 416, "range_not_satisfiable"),
    (KeyReused("x"), 422, "key_reused"),
    (Denied("x"), 403, "denied"),
    (Unauthenticated("x"), 401, "unauthenticated"),
    (LimitReached("x", limit="jail.command_timeout_s"), 429, "limit_reached"),
    (LimitReached("x", limit="workspace.quota_bytes"), 507, "limit_reached"),
    (LimitReached("x", limit="event_bytes"), 413, "limit_reached"),
    (TooManyRequests("x", limit="login", retry_after_s=3), 429, "too_many_requests"),
    (Unavailable("x"), 503, "unavailable"),
    (HutchError("x"), 500, "internal"),
]


@pytest.mark.parametrize(("error", "status", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_each_family_has_its_status_and_code(error: HutchError, status: int, code: str) -> None:
    found = error_status(error)
    assert (found.status, found.code) == (status, code)


def test_every_code_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs/errors.md").read_text()
    assert [code for code in sorted(CODES) if f"| `{code}` |" not in page] == []
    assert [limit for limit in LIMITS if f"`{limit}`" not in page] == []


@pytest.fixture
async def failing() -> httpx.AsyncClient:
    """An application in which everything goes wrong."""
    app = FastAPI()
    secret = "hunter2-hunter2"

    @app.get("/bug")
    async def bug() -> None:
        raise RuntimeError(f"no such table, password {secret}")

    @app.get("/ours")
    async def ours() -> None:
        raise Conflict(f"It holds {secret}.")

    @app.get("/slow")
    async def slow() -> None:
        raise TooManyRequests("Later.", limit="login", retry_after_s=7)

    async def halfway(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        raise RuntimeError("in the middle")

    app.mount("/halfway", halfway)
    handle_problems(app, Redactor({secret}))
    app.add_middleware(Traced)
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test")


async def test_the_response_to_a_bug_has_only_its_trace_id(failing: httpx.AsyncClient) -> None:
    lines = io.StringIO()
    logs.configure(format="json", stream=lines, redactor=Redactor({"hunter2-hunter2"}))
    answered = await failing.get("/bug", headers={"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"})
    assert answered.status_code == 500
    assert answered.headers["content-type"] == "application/problem+json"
    assert answered.headers["x-trace-id"] == "ab" * 16
    assert answered.json() == {
        "type": "about:blank",
        "title": "Internal Server Error",
        "status": 500,
        "code": "internal",
        "detail": "Something went wrong in the server. Its log says more under this trace id.",
        "trace_id": "ab" * 16,
    }
    line = json.loads(lines.getvalue().splitlines()[-1])
    assert (line["event"], line["trace_id"]) == ("request.failed", "ab" * 16)
    assert "no such table" in line["exception"]
    assert "hunter2" not in lines.getvalue()


async def test_a_message_holds_no_secret(failing: httpx.AsyncClient) -> None:
    answered = await failing.get("/ours")
    assert (answered.status_code, "hunter2" in answered.text) == (409, False)


async def test_when_to_come_back(failing: httpx.AsyncClient) -> None:
    answered = await failing.get("/slow")
    assert (answered.headers["retry-after"], answered.json()["retry_after_s"]) == ("7", 7)
    assert answered.json()["limit"] == "login"


async def test_an_answer_that_has_begun_is_cut(failing: httpx.AsyncClient) -> None:
    with pytest.raises(RuntimeError):
        await failing.get("/halfway/")


@pytest.mark.parametrize(
    "given",
    ["", "nonsense", f"00-{'0' * 32}-{'cd' * 8}-01", f"00-{'AB' * 16}-{'cd' * 8}-01", f"00-{'ab' * 16}"],
)
async def test_a_trace_id_that_is_none_is_not_taken(failing: httpx.AsyncClient, given: str) -> None:
    first, second = [await failing.get("/ours", headers={"traceparent": given}) for _ in range(2)]
    ids = {first.headers["x-trace-id"], second.headers["x-trace-id"]}
    assert len(ids) == 2
    assert all(len(each) == 32 and each != "0" * 32 for each in ids)


async def test_an_error_of_the_router_is_a_problem_too(api: Api) -> None:
    for method, path, status, code in (
        ("GET", f"{V1}/nothing", 404, "not_found"),
        ("GET", "/nothing", 404, "not_found"),
        ("PATCH", f"{V1}/sessions", 405, "method_not_allowed"),
        ("TRACE", f"{V1}/sessions", 405, "method_not_allowed"),
        ("GET", f"{V1}/sessions/", 404, "not_found"),
    ):
        answered = await api.request(method, path)
        assert answered.headers["content-type"] == "application/problem+json", path
        assert (answered.status_code, answered.json()["code"]) == (status, code), path
        assert answered.json()["trace_id"] == answered.headers["x-trace-id"]


async def test_a_method_that_is_not_supported_lists_all_that_are(api: Api) -> None:
    answered = await api.request("PUT", f"{V1}/users/me/preferences", json={})
    assert (answered.status_code, answered.headers["allow"]) == (405, "GET, PATCH")
    assert answered.json()["detail"] == "PUT is not supported here. Supported: GET, PATCH."


DEEP = b'{"limits":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"nonsense",
        b"\xff\xfe",
        b'{"purpose": NaN}',
        b'{"purpose": "\\ud800"}',
        b'{"limits": {"turns": 1' + b"0" * 400 + b"}}",
        b'{"limits": {"cost_usd": 1e999}}',
        b'{"limits": {"turns": 1.5}}',
        b'{"limits": {"turns": true}}',
        b'{"purpose": ["x"]}',
        b'{"\\ud83d\\ude00": 1}',
        DEEP,
        b'{"purpose": "' + b"x" * 3_000_000 + b'"}',
        b'{"network": [' + b'"a",' * 100_000 + b'"a"]}',
    ],
    ids=lambda body: body[:30].decode("latin-1"),
)
async def test_a_body_that_makes_no_sense_is_refused(api: Api, body: bytes) -> None:
    headers = {"Content-Type": "application/json"}
    answered = await api.post(f"{V1}/sessions", content=body, headers=headers)
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid"), answered.text[:300]
    assert answered.json()["errors"]
    assert len(answered.content) < 20_000
    for libraries in ("Input should", "Field required", "Extra inputs", "String should", "List should"):
        assert libraries not in answered.text


async def test_a_fault_names_the_field_and_what_is_allowed(api: Api) -> None:
    error_status = (await api.post(f"{V1}/sessions", json={"limits": {"turns": 0}, "colour": "red"})).json()
    assert error_status["detail"].endswith(" body.limits.turns: It must be at least 1.")
    assert error_status["errors"] == [
        {"at": "body.limits.turns", "message": "It must be at least 1"},
        {"at": "body.colour", "message": "There is no such field"},
    ]


KINDS = ["text/plain", "application/x-www-form-urlencoded", "", None, "multipart/form-data", "nonsense", "/"]


@pytest.mark.parametrize("kind", KINDS)
async def test_the_error_for_a_body_of_another_kind_names_the_right_one(api: Api, kind: str | None) -> None:
    headers = {} if kind is None else {"Content-Type": kind}
    document = json.loads((Path(__file__).parents[2] / "docs/openapi.json").read_text())
    operations = [
        (method, re.sub(r"{.*?}", "x", path))
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if "application/json" in operation.get("requestBody", {}).get("content", {}) and "webhook" not in path
    ]
    assert ("post", "/api/code") in operations and len(operations) > 20
    for method, path in operations:
        answered = await api.request(method, path, content=b'{"type": "x"}', headers=headers)
        error_status = answered.json()
        assert (answered.status_code, error_status["code"]) == (415, "unsupported_media_type"), path
        assert error_status["detail"].endswith("send Content-Type: application/json.")
        assert not kind or kind in error_status["detail"]


async def test_an_unauthenticated_body_of_another_kind_is_refused_as_unauthenticated(api: Api) -> None:
    nobody = await api.as_nobody()
    answered = await nobody.post(f"{V1}/sessions", content=b"a=b", headers={"Content-Type": "text/plain"})
    assert answered.status_code == 401


async def test_json_of_a_kind_of_its_own_is_json(api: Api) -> None:
    for kind in ("application/json; charset=utf-8", "APPLICATION/JSON", "application/vnd.x+json"):
        answered = await api.post(f"{V1}/sessions", content=b'{"x": 1}', headers={"Content-Type": kind})
        assert (answered.status_code, answered.json()["errors"][0]["at"]) == (422, "body.x")
    assert (await api.post("/api/code")).status_code == 422  # there is none, whatever it is called


async def test_a_body_that_is_too_large_is_refused(api: Api) -> None:
    answered = await api.post(f"{V1}/sessions", content=b"x" * 17_000_000)
    assert (answered.status_code, answered.json()["limit"]) == (413, "server.body_bytes")
    assert answered.headers["x-trace-id"]
