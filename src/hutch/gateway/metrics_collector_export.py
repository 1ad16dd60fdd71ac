"""Sends metrics of models and tools to the collector in the settings, by OTLP."""

from typing import Any

import hutch
from hutch.domain.events import ModelReplied, ToolReturned
from hutch.gateway import trace_attribute_names as names
from hutch.gateway.collector_problem_log import filter_exporter_problems
from hutch.gateway.log_event_metrics import Names

EXPORT_INTERVAL_S = 15.0
EXPORT_TIMEOUT_S = 2.0


class Measures:
    """Makes and sends metrics. Created only if there is a collector, because it loads the library."""

    def __init__(self, endpoint: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
        from opentelemetry.sdk.resources import Resource

        filter_exporter_problems("metric_exporter")
        exporter = OTLPMetricExporter(endpoint=f"{endpoint.rstrip('/')}/v1/metrics", timeout=EXPORT_TIMEOUT_S)
        reader = PeriodicExportingMetricReader(exporter, export_interval_millis=EXPORT_INTERVAL_S * 1000)
        resource = Resource.create({names.SERVICE_NAME: "hutch", names.SERVICE_VERSION: hutch.__version__})
        self._provider = MeterProvider([reader], resource)
        meter = self._provider.get_meter("hutch", hutch.__version__)
        self._tokens = meter.create_histogram(
            names.TOKEN_USAGE,
            "{token}",
            "Tokens of a reply.",
            explicit_bucket_boundaries_advisory=names.TOKEN_BOUNDS,
        )
        self._durations = meter.create_histogram(
            names.OPERATION_DURATION,
            "s",
            "Duration of a reply or a call.",
            explicit_bucket_boundaries_advisory=names.DURATION_BOUNDS,
        )
        self._cost = meter.create_counter(names.COST_USD, "{USD}", "Cost of models with known prices.")
        self._tools = Names()

    def add_reply(self, event: ModelReplied, model: dict[str, Any]) -> None:
        attributes = {names.OPERATION: names.CHAT, **model}
        for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
            self._tokens.record(max(0, tokens), {**attributes, names.TOKEN_TYPE: kind})
        self._durations.record(event.duration_s, attributes)
        self._cost.add(max(0.0, event.cost_usd or 0.0), attributes)

    def add_tool(self, event: ToolReturned) -> None:
        attributes = {names.OPERATION: names.EXECUTE_TOOL, names.TOOL_NAME: self._tools.of(event.tool[:80])}
        if not event.ok:
            attributes[names.ERROR_TYPE] = names.TOOL_ERROR
        self._durations.record(event.duration_s, attributes)

    def close(self) -> None:
        """Send the last values, if the collector accepts them in time."""
        self._provider.shutdown(timeout_millis=EXPORT_TIMEOUT_S * 1000)
