"""One trace id for a request, its run, its jail and all log lines; and spans for a collector."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.trace import SpanKind, StatusCode

from hutch.gateway import trace_attribute_names as names
from tests.cli.hutch_up_process import TIMEOUT_S, Home, Up
from tests.gateway.mcp_server import eventually

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = {"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"}
SECRET = "Say the unspeakable"
REPLIES = [
    {
        "calls": [
            {"tool": "bash", "args": {"command": "echo unspeakable"}},
            {"tool": "read_file", "args": {"path": "missing"}},
        ]
    },
    {"text": "It is unspeakable.", "times": 100},
]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@dataclass
class Collector:
    """Receives exported traces by OTLP over HTTP."""

    port: int
    bodies: list[bytes] = field(default_factory=list)
    metrics: list[bytes] = field(default_factory=list)
    resources: list[dict[str, Any]] = field(default_factory=list)

    def points(self) -> list[dict[str, Any]]:
        """The values of the metrics, each with its name and attributes."""
        return [
            {"name": metric.name, "sum": getattr(point, "sum", 0), **_attributes(point.attributes)}
            for body in self.metrics
            for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in getattr(metric, metric.WhichOneof("data")).data_points
        ]

    def spans(self) -> list[dict[str, Any]]:
        found = []
        for body in list(self.bodies):
            request = ExportTraceServiceRequest.FromString(body)
            for resource in request.resource_spans:
                self.resources.append(_attributes(resource.resource.attributes))
                for scope in resource.scope_spans:
                    found += [
                        {
                            "name": span.name,
                            "trace": span.trace_id.hex(),
                            "id": span.span_id.hex(),
                            "above": span.parent_span_id.hex(),
                            "kind": span.kind,
                            "status": span.status.code,
                            "took_ns": span.end_time_unix_nano - span.start_time_unix_nano,
                            **_attributes(span.attributes),
                        }
                        for span in scope.spans
                    ]
        return found


def _attributes(pairs: Any) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}


@contextmanager
def collector() -> Iterator[Collector]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/v1/traces":
                collecting.bodies.append(body)
            elif self.path == "/v1/metrics":
                collecting.metrics.append(body)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        collecting = Collector(server.server_address[1])
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield collecting
        finally:
            server.shutdown()
            thread.join()


def run_once(up: Up, home: Home) -> str:
    """The id of a session that a request with a trace has made, once its run is over."""
    path = home.place / "model.json"
    path.write_text(json.dumps({"replies": REPLIES}))
    with httpx.Client(base_url=up.url, headers=up.owner(), timeout=TIMEOUT_S, trust_env=False) as client:
        wanted = {"prompt": SECRET, "model": f"scripted:{path}"}
        made = client.post("/api/v1/sessions", json=wanted, headers=PARENT)
        assert (made.status_code, made.headers["x-trace-id"]) == (201, TRACE), made.text
        session_id = made.json()["id"]

        def over() -> bool:
            runs = client.get(f"/api/v1/sessions/{session_id}/runs").json()["items"]
            return bool(runs[0]["state"] == "ended" and runs[0]["outcome"] == "done")

        eventually(over)
    return str(session_id)


def test_the_id_of_a_request_is_in_every_line_of_its_run_and_jail(home: Home) -> None:
    with home.up() as up:
        session_id = run_once(up, home)
        assert up.end() == 0
    lines = [json.loads(line) for line in home.hutch("logs", "--json", "-n", "1000").stdout.splitlines()]
    of_run = {line["event"]: line for line in lines if line["trace_id"] == TRACE}
    request = of_run.pop("request.answered")
    assert (request["method"], request["route"], request["status"]) == ("POST", "/api/v1/sessions", 201)
    assert {"run.claimed", "session.jail_opened", "run.over"} <= set(of_run)
    assert {line["session_id"] for line in of_run.values()} == {session_id}
    assert of_run["run.claimed"]["run_id"] == of_run["session.jail_opened"]["run_id"]
    assert [line["event"] for line in lines if line["event"] == "server.ready"] == ["server.ready"]


def test_spans_of_requests_runs_models_and_tools_reach_the_collector(home: Home) -> None:
    with collector() as collecting:
        endpoint = f"http://127.0.0.1:{collecting.port}"
        with home.up(HUTCH_TELEMETRY__OTLP_ENDPOINT=endpoint) as up:
            session_id = run_once(up, home)
            assert up.end() == 0
        spans = [span for span in collecting.spans() if span["trace"] == TRACE]
        everything = b"".join([*collecting.bodies, *collecting.metrics])
    by_name = {span["name"]: span for span in spans}
    assert set(by_name) == {
        "POST /api/v1/sessions",
        "invoke_agent engineer",
        "chat scripted",
        "execute_tool bash",
        "execute_tool read_file",
    }
    request, run = by_name["POST /api/v1/sessions"], by_name["invoke_agent engineer"]
    assert (request[names.HTTP_ROUTE], request[names.HTTP_STATUS]) == ("/api/v1/sessions", 201)
    assert run["above"] == request["id"]
    chats = {span["id"]: span["above"] for span in spans if span["name"] == "chat scripted"}
    assert set(chats.values()) == {run["id"]}
    assert by_name["execute_tool bash"]["above"] in chats
    assert (run[names.CONVERSATION_ID], run[names.RUN_OUTCOME]) == (session_id, "done")
    tool, chat = by_name["execute_tool bash"], by_name["chat scripted"]
    assert (tool[names.TOOL_NAME], tool[names.TOOL_OK], tool[names.OPERATION]) == (
        "bash",
        True,
        "execute_tool",
    )
    assert (chat[names.OPERATION], chat[names.PROVIDER], chat[names.REQUEST_MODEL]) == (
        "chat",
        "scripted",
        "scripted",
    )
    assert chat["kind"] == SpanKind.CLIENT.value + 1  # the protocol begins with "unspecified"
    failed = by_name["execute_tool read_file"]
    assert (failed[names.ERROR_TYPE], failed["status"]) == ("tool_error", StatusCode.ERROR.value)
    assert names.ERROR_TYPE not in tool
    assert len([span for span in spans if span["name"] == "chat scripted"]) == 2
    assert all(span["took_ns"] >= 0 for span in spans)
    assert {resource[names.SERVICE_NAME] for resource in collecting.resources} == {"hutch"}
    points = collecting.points()
    of_tools = [point for point in points if point.get(names.TOOL_NAME) == "bash"]
    assert {point["name"] for point in of_tools} == {names.OPERATION_DURATION}
    tokens = [point for point in points if point["name"] == names.TOKEN_USAGE]
    assert {point[names.TOKEN_TYPE] for point in tokens} == {"input", "output"}
    assert {point[names.REQUEST_MODEL] for point in tokens} == {"scripted"}
    assert b"unspeakable" not in everything  # numbers and names are sent, and nothing that was said


def test_a_collector_that_is_not_there_holds_nothing_up(home: Home) -> None:
    with home.up(HUTCH_TELEMETRY__OTLP_ENDPOINT="http://127.0.0.1:9") as up:
        run_once(up, home)
        assert up.get("/readyz").status_code == 200
        assert up.end() == 0


def test_without_a_collector_its_library_is_not_loaded() -> None:
    script = (
        "import sys, hutch.gateway.server_lifecycle; "
        "print([m for m in sys.modules if 'opentelemetry.sdk' in m])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
