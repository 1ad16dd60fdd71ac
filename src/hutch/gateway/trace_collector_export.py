"""Sends traces and metrics to the collector in the settings: requests, runs, model and tool calls.

All events of a session go into its log, so spans of runs are derived from it, like the
metrics. Names, times and numbers are sent, but no content of prompts, replies or files.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

import hutch
from hutch.domain.events import Event, ModelReplied, RunEnded, RunStarted, ToolReturned, UnknownEvent
from hutch.domain.ids import SessionId
from hutch.domain.trace_id import trace_id
from hutch.gateway import trace_attribute_names as names
from hutch.gateway.collector_problem_log import filter_exporter_problems
from hutch.gateway.gateway_context import Server
from hutch.gateway.log_event_metrics import model_label
from hutch.gateway.metrics import METHODS, SEEN
from hutch.gateway.metrics_collector_export import Measures

EXPORT_TIMEOUT_S = 2.0  # for one export, and for the last one at the end
EXPORT_INTERVAL_S = 1.0
MAX_RUNS = 10_000
MAX_REQUESTS = 10_000
FAILED = {"failed", "limit_reached"}


class Spans:
    """Makes and sends spans. Created only if there is a collector, because it loads the library."""

    def __init__(self, endpoint: str) -> None:
        from opentelemetry import context, trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class OurIds(RandomIdGenerator):
            """Gives a span without a parent the trace id of the log lines."""

            def generate_trace_id(self) -> int:
                return int(trace_id() or "0", 16) or super().generate_trace_id()

        self._trace, self._no_context = trace, context.Context()
        self._provider = TracerProvider(
            id_generator=OurIds(),
            resource=Resource.create({names.SERVICE_NAME: "hutch", names.SERVICE_VERSION: hutch.__version__}),
        )
        filter_exporter_problems("trace_exporter")
        exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces", timeout=EXPORT_TIMEOUT_S)
        self._provider.add_span_processor(
            BatchSpanProcessor(exporter, schedule_delay_millis=EXPORT_INTERVAL_S * 1000)
        )
        self._tracer = self._provider.get_tracer("hutch", hutch.__version__)
        self._runs: OrderedDict[str, tuple[Any, str]] = OrderedDict()  # open spans, and their models
        self._replies: OrderedDict[str, Any] = OrderedDict()  # the span of the newest reply of each run
        self._measures = Measures(endpoint)
        self._requests: OrderedDict[str, Any] = OrderedDict()  # the newest span of each trace

    # --- sessions: a listener of the log ---

    def __call__(self, session_id: SessionId, events: Sequence[Event | UnknownEvent]) -> None:
        for event in events:
            match event:
                case RunStarted():
                    self._begin_run(session_id, event)
                case ModelReplied():
                    self._reply(session_id, event)
                case ToolReturned():
                    self._tool(session_id, event)
                case RunEnded():
                    self._end_run(event)

    def _begin_run(self, session_id: SessionId, event: RunStarted) -> None:
        span = self._start(
            f"{names.INVOKE_AGENT} {event.persona}",
            parent=self._requests.get(trace_id()),
            attributes={
                names.OPERATION: names.INVOKE_AGENT,
                names.AGENT_NAME: event.persona,
                names.CONVERSATION_ID: session_id,
                names.RUN_ID: event.run_id,
                **_model(event.model),
            },
        )
        _put(self._runs, event.run_id, (span, event.model), MAX_RUNS)

    def _reply(self, session_id: SessionId, event: ModelReplied) -> None:
        parent, model = self._runs.get(event.run_id, (None, ""))
        attributes = {
            names.OPERATION: names.CHAT,
            names.CONVERSATION_ID: session_id,
            names.RUN_ID: event.run_id,
            names.FINISH_REASONS: [event.finish],
            names.INPUT_TOKENS: event.input_tokens,
            names.CACHED_TOKENS: event.cached_tokens,
            names.OUTPUT_TOKENS: event.output_tokens,
            **_model(model),
        }
        if event.cost_usd is not None:
            attributes[names.COST_USD] = event.cost_usd
        name = f"{names.CHAT} {model_label(model)}".strip()
        kind = self._trace.SpanKind.CLIENT
        span = self._add_ended(name, event.duration_s, parent, attributes, kind=kind)
        _put(self._replies, event.run_id, span, MAX_RUNS)
        self._measures.add_reply(event, _model(model))

    def _tool(self, session_id: SessionId, event: ToolReturned) -> None:
        run, _ = self._runs.get(event.run_id, (None, ""))
        parent = self._replies.get(event.run_id, run)  # the reply that made the call
        attributes = {
            names.OPERATION: names.EXECUTE_TOOL,
            names.TOOL_NAME: event.tool[:100],
            names.TOOL_CALL_ID: event.call_id,
            names.CONVERSATION_ID: session_id,
            names.RUN_ID: event.run_id,
            names.TOOL_OK: event.ok,
        }
        if not event.ok:
            attributes[names.ERROR_TYPE] = names.TOOL_ERROR
        name = f"{names.EXECUTE_TOOL} {event.tool[:100]}"
        self._add_ended(name, event.duration_s, parent, attributes, failed=not event.ok)
        self._measures.add_tool(event)

    def _end_run(self, event: RunEnded) -> None:
        span, _ = self._runs.pop(event.run_id, (None, ""))
        self._replies.pop(event.run_id, None)
        if span is None:
            return
        span.set_attributes(
            {
                names.RUN_OUTCOME: event.outcome,
                names.RUN_TURNS: event.turns,
                names.INPUT_TOKENS: event.input_tokens,
                names.OUTPUT_TOKENS: event.output_tokens,
            }
        )
        if event.outcome in FAILED:
            span.set_attribute(names.ERROR_TYPE, event.outcome)
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    # --- requests ---

    def begin_request(self, scope: Scope) -> Any:
        method = scope["method"] if scope["method"] in METHODS else "_OTHER"
        attributes = {names.HTTP_METHOD: method, names.URL_SCHEME: scope.get("scheme", "http")}
        span = self._start(method, attributes=attributes, kind=self._trace.SpanKind.SERVER)
        _put(self._requests, trace_id(), span, MAX_REQUESTS)
        return span

    def end_request(self, span: Any, scope: Scope, status: int) -> None:
        route = scope.get(SEEN, [""])[0]
        if route:
            span.update_name(f"{scope['method']} {route}")
            span.set_attribute(names.HTTP_ROUTE, route)
        span.set_attribute(names.HTTP_STATUS, status)
        if status >= 500:
            span.set_attribute(names.ERROR_TYPE, str(status))
            span.set_status(self._trace.StatusCode.ERROR)
        span.end()

    def close(self) -> None:
        """Send the remaining spans, if the collector accepts them in time."""
        for span, _ in self._runs.values():  # their runs resume after the next start
            span.end()
        self._provider.force_flush(int(EXPORT_TIMEOUT_S * 1000))
        self._provider.shutdown()
        self._measures.close()

    # --- inside ---

    def _start(self, name: str, *, parent: Any = None, start_ns: int | None = None, **options: Any) -> Any:
        parent = (
            self._no_context if parent is None else self._trace.set_span_in_context(parent, self._no_context)
        )
        return self._tracer.start_span(name, context=parent, start_time=start_ns, **options)

    def _add_ended(
        self,
        name: str,
        duration_s: float,
        parent: Any,
        attributes: dict[str, Any],
        *,
        failed: bool = False,
        **options: Any,
    ) -> Any:
        """Add a span that has ended, and return it."""
        now = time.time_ns()
        start_ns = now - int(duration_s * 1e9)
        span = self._start(name, parent=parent, start_ns=start_ns, attributes=attributes, **options)
        if failed:
            span.set_status(self._trace.StatusCode.ERROR)
        span.end(now)
        return span


class Spanned:
    """Middleware: a span for each request. Inside the trace id, outside the request filter."""

    def __init__(self, app: ASGIApp, spans: Spans) -> None:
        self._app, self._spans = app, spans

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        span, status = self._spans.begin_request(scope), 500

        async def send_on(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, send_on)
        finally:
            self._spans.end_request(span, scope, status)


def open_spans(server: Server) -> Spans | None:
    """The spans, if the settings name a collector."""
    endpoint = server.loaded.settings.telemetry.otlp_endpoint
    return Spans(endpoint) if endpoint else None


@asynccontextmanager
async def sending(spans: Spans | None, server: Server) -> AsyncIterator[None]:
    """Listen to the log while the block lasts; at the end, send the remaining spans."""
    if spans is None:
        yield
        return
    server.log.listeners.append(spans)
    try:
        yield
    finally:
        server.log.listeners.remove(spans)
        await asyncio.to_thread(spans.close)


def _model(name: str) -> dict[str, Any]:
    provider, _, _ = name.partition(":")
    return {names.PROVIDER: provider, names.REQUEST_MODEL: model_label(name)} if name else {}


def _put(cache: OrderedDict[str, Any], key: str, value: Any, maximum: int) -> None:
    cache[key] = value
    cache.move_to_end(key)
    while len(cache) > maximum:
        cache.popitem(last=False)
