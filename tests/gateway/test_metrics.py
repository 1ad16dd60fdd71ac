"""Metrics: counted from events, visible to permitted callers, and bounded in number."""

import asyncio
import json
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from hutch.domain.events import ModelReplied, RunEnded, RunStarted, ToolReturned
from hutch.domain.ids import SessionId
from hutch.gateway.log_event_metrics import MAX_NAMES, Counts
from tests.gateway.api_server import V1, Api, eventually, serving
from tests.gateway.stream_clients import socket

pytestmark = pytest.mark.anyio
SESSION = SessionId("ses_1")
EVENTS_APPENDED = "hutch_events_appended_total"


async def read(api: Api) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    answered = await api.get("/metrics")
    assert answered.status_code == 200
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answered.text)
        for sample in family.samples
    }


def value(found: dict[tuple[str, frozenset[tuple[str, str]]], float], name: str, **labels: str) -> float:
    return found.get((name, frozenset(labels.items())), 0.0)


def requests(found: dict[tuple[str, frozenset[tuple[str, str]]], float]) -> dict[tuple[str, str, str], float]:
    """How often each method, route and status was counted."""
    return {
        (by["method"], by["route"], by["status"]): count
        for (name, labels), count in found.items()
        if name == "hutch_http_requests_total" and (by := dict(labels))
    }


async def test_requests_are_counted_by_route_and_not_by_path(api: Api) -> None:
    for number in range(5):
        await api.get(f"{V1}/sessions/ses_{number}")
        await api.get(f"/made/up/{number}")
    await api.request("PURGE", "/healthz")
    found = await read(api)
    route = f"{V1}/sessions/{{session_id}}"
    assert value(found, "hutch_http_requests_total", method="GET", route=route, status="404") == 5
    assert value(found, "hutch_http_requests_total", method="GET", route="unknown", status="404") == 5
    assert value(found, "hutch_http_request_seconds_count", method="GET", route=route) == 5
    assert value(found, "hutch_http_requests_total", method="other", route="/healthz", status="405") == 1
    routes = {dict(labels)["route"] for name, labels in found if name == "hutch_http_requests_total"}
    assert not [each for each in routes if re.search(r"ses_\d|made|up/", each)]


async def test_streams_graphql_and_mcp_are_counted_by_their_routes(api: Api) -> None:
    await api.get(f"{V1}/sessions/ses_1/events/stream")
    await api.post("/api/graphql", json={"query": "{ me { id } }"})
    await api.post("/mcp", json={})
    found = await read(api)
    counted = {
        dict(labels)["route"] for name, labels in found if name == "hutch_http_requests_total" and labels
    }
    assert counted >= {f"{V1}/sessions/{{session_id}}/events/stream", "/api/graphql", "/mcp"}


async def test_requests_that_the_filter_refuses_are_counted_by_their_route(api: Api) -> None:
    before = requests(await read(api))
    await api.get("/healthz", headers={"Host": "evil.example"})
    await api.get("/made/up", headers={"Host": "evil.example"})
    await api.post(f"{V1}/sessions/ses_1/inputs", headers={"Origin": "http://evil.example"}, json={})
    await api.post("/made/up", headers={"Origin": "http://evil.example"}, json={})
    after = requests(await read(api))
    assert {key: count for key, count in after.items() if key not in before and key[1] != "/metrics"} == {
        ("GET", "/healthz", "421"): 1,
        ("GET", "unknown", "421"): 1,
        ("POST", f"{V1}/sessions/{{session_id}}/inputs", "403"): 1,
        ("POST", "unknown", "403"): 1,
    }


async def test_handshakes_are_counted_by_their_answer(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"streams_per_user": 1}) as api:
        session_id = (await api.new_session(purpose="sockets"))["id"]
        before = requests(await read(api))
        stranger = await api.as_nobody()
        events, terminal = (
            f"/sessions/{session_id}/events/socket",
            f"/sessions/{session_id}/terminals/x/socket",
        )
        async with socket(api, events):
            refused = [
                await refused_handshake(api, events),
                await refused_handshake(api, terminal, origin="http://evil.example"),
                await refused_handshake(api, "/sessions/ses_1/events/socket"),
                await refused_handshake(stranger, events),
                await refused_handshake(api, "/made/up"),
                await refused_handshake(api, events, host="127.0.0.1", name="evil.example"),
            ]
            open_sockets = {
                dict(labels)["route"]: count
                for (name, labels), count in (await read(api)).items()
                if name == "hutch_websockets_open"
            }
        after = requests(await read(api))
    assert refused == [429, 403, 404, 401, 403, 421]
    route = f"{V1}/sessions/{{session_id}}/events/socket"
    assert {key: count for key, count in after.items() if key not in before and key[1] != "/metrics"} == {
        ("GET", route, "101"): 1,
        ("GET", route, "429"): 1,
        ("GET", f"{V1}/sessions/{{session_id}}/terminals/{{terminal_id}}/socket", "403"): 1,
        ("GET", route, "404"): 1,
        ("GET", route, "401"): 1,
        ("GET", "unknown", "403"): 1,
        ("GET", route, "421"): 1,
    }
    assert open_sockets == {route: 1}


async def refused_handshake(api: Api, path: str, name: str = "", **options: Any) -> int:
    """The status that a handshake is answered with, when it is refused; `name` is for the Host."""
    there = api.url.replace("127.0.0.1", name) if name else api.url
    token = {"Authorization": f"Bearer {api.token}"} if api.token else {}
    with pytest.raises(InvalidStatus) as refused:
        await connect(
            f"{there.replace('http', 'ws', 1)}{V1}{path}", additional_headers=token, proxy=None, **options
        )
    return refused.value.response.status_code


async def test_sessions_runs_jails_events_and_models_are_counted(tmp_path: Path) -> None:
    async with serving(tmp_path, replies=[{"text": "Hello.", "times": 10}]) as api:
        session_id = await api.ready_session(purpose="to be counted")
        await api.give(session_id, type="prompt", text="Say hello")

        async def ended() -> bool:
            return any(event["type"] == "run.ended" for event in await api.events(session_id))

        await eventually(ended)
        await api.until(session_id, "idle")

        async def counted() -> dict[tuple[str, frozenset[tuple[str, str]]], float] | None:
            """The numbers, once the last events are in the log and counted, and the loop was looked at."""
            found, events = await read(api), await api.events(session_id)
            appended = sum(count for (name, _), count in found.items() if name == EVENTS_APPENDED)
            looked = value(found, "hutch_event_loop_lag_seconds_count")
            return found if appended == len(events) and looked else None

        found = await eventually(counted)
        assert value(found, "hutch_sessions", state="idle") == 1
        assert value(found, "hutch_jails_open") == 1
        assert value(found, "hutch_runs", state="ended") == 2
        assert value(found, "hutch_runs_ended_total", outcome="done") == 1
        assert value(found, "hutch_model_reply_seconds_count", model="scripted") == 1
        assert value(found, "process_open_fds") > 5
        assert value(found, "process_resident_memory_bytes") > 10_000_000
        assert "model.json" not in (await api.get("/metrics")).text


async def test_others_than_this_machine_and_owners_may_not_read_them(api: Api) -> None:
    stranger, member = await api.as_nobody(), await api.as_user("mem")
    observer = await api.as_user("obs", "owner", scopes="read")
    through_a_proxy = {"X-Forwarded-For": "203.0.113.9"}
    assert (await stranger.get("/metrics")).status_code == 200
    assert (await stranger.get("/metrics", headers=through_a_proxy)).status_code == 401
    assert (await member.get("/metrics", headers=through_a_proxy)).status_code == 403
    assert (await observer.get("/metrics", headers=through_a_proxy)).status_code == 200


async def test_metrics_can_be_made_public(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"metrics_open": True}) as api:
        stranger = await api.as_nobody()
        answered = await stranger.get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"})
        assert answered.status_code == 200


def test_tokens_and_cost_are_counted_by_model_and_tools_by_name() -> None:
    registry = CollectorRegistry()
    counts = Counts(registry)
    counts(SESSION, [RunStarted(run_id="r", prompt="", persona="p", model="anthropic:claude")])
    counts(
        SESSION,
        [
            ModelReplied(run_id="r", turn=1, input_tokens=10, cached_tokens=4, output_tokens=3, cost_usd=0.5),
            ToolReturned(run_id="r", call_id="c", tool="bash", ok=True, text="", duration_s=0.2),
            RunEnded(run_id="r", outcome="done"),
        ],
    )

    def sample(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, labels)

    model = {"model": "anthropic:claude"}
    assert [
        sample("hutch_model_tokens_total", **model, kind=kind) for kind in ("input", "cached", "output")
    ] == [
        10,
        4,
        3,
    ]
    assert sample("hutch_model_cost_usd_total", **model) == 0.5
    assert sample("hutch_tool_seconds_count", tool="bash", ok="true") == 1
    assert sample("hutch_runs_ended_total", outcome="done") == 1
    assert counts._model_of == {}


def test_made_up_names_do_not_fill_the_memory() -> None:
    registry = CollectorRegistry()
    counts = Counts(registry)
    for number in range(MAX_NAMES * 4):
        counts(SESSION, [RunStarted(run_id=str(number), prompt="", persona="p", model=f"openai:{number}")])
        counts(SESSION, [ModelReplied(run_id=str(number), turn=1, input_tokens=1)])
    labels = {
        sample.labels["model"]
        for family in registry.collect()
        for sample in family.samples
        if sample.name == "hutch_model_tokens_total"
    }
    assert len(labels) == MAX_NAMES + 1 and "other" in labels


async def test_requests_refused_for_their_body_are_counted_by_their_route(tmp_path: Path) -> None:
    async with serving(tmp_path, server={"body_bytes": 2000, "body_timeout_s": 1}) as api:
        await api.post(f"{V1}/sessions", content=b"x" * 3000)

        async def slowly() -> AsyncIterator[bytes]:
            yield b"{"
            await asyncio.sleep(2)  # longer than the server waits
            yield b"}"

        slow = await api.post(f"{V1}/sessions/ses_1/fork", content=slowly())
        made_up = await api.post("/made/up", content=b"x" * 3000)
        host = f"{'0' * 26}-3000.localhost"
        page = await api.post("/own/path", content=b"x" * 3000, headers={"Host": host})
        found = await read(api)
    assert (slow.status_code, made_up.status_code, page.status_code) == (408, 413, 413)
    counted = "hutch_http_requests_total"
    assert value(found, counted, method="POST", route=f"{V1}/sessions", status="413") == 1
    assert value(found, counted, method="POST", route=f"{V1}/sessions/{{session_id}}/fork", status="408") == 1
    assert value(found, counted, method="POST", route="unknown", status="413") == 1
    assert value(found, counted, method="POST", route="preview", status="413") == 1


async def test_the_dashboard_for_grafana_names_metrics_that_exist(api: Api) -> None:
    text = (Path(__file__).parents[2] / "docs" / "grafana-dashboard.json").read_text()
    queries = [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]
    named = {name for query in queries for name in re.findall(r"\b(?:hutch|process)_\w+", query)}
    exposed = (await api.get("/metrics")).text
    known = set(re.findall(r"^# TYPE (\w+)", exposed, re.MULTILINE))
    assert len(named) > 12
    assert {name for name in named if re.sub("_(bucket|count|sum)$", "", name) not in known} == set()
