"""A collector that is away is named in the log, but does not fill it."""

import logging

import pytest

from hutch.gateway.collector_problem_log import EXPORTERS, REPEAT_AFTER_S, RepeatedMessageFilter
from hutch.gateway.metrics_collector_export import Measures
from hutch.gateway.trace_collector_export import Spans


@pytest.mark.parametrize(("made", "kind"), [(Measures, "metric_exporter"), (Spans, "trace_exporter")])
def test_a_problem_that_repeats_is_logged_once(
    made: type[Measures] | type[Spans], kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    made("http://127.0.0.1:9").close()
    logger = logging.getLogger(f"{EXPORTERS}.{kind}")
    for port in range(3):
        logger.error(f"No connection to a collector of {kind}: %s", port)
    logger.error(f"Another problem of {kind}")
    assert [record.getMessage() for record in caplog.records if kind in record.getMessage()] == [
        f"No connection to a collector of {kind}: 0",
        f"Another problem of {kind}",
    ]


def test_a_problem_is_logged_again_after_an_hour() -> None:
    now = [0.0]
    filter_ = RepeatedMessageFilter(lambda: now[0])
    passed = []
    for now[0] in (0.0, REPEAT_AFTER_S - 1, REPEAT_AFTER_S, REPEAT_AFTER_S + 1):
        passed.append(filter_.filter(logging.makeLogRecord({"msg": "away"})))
    assert passed == [True, False, True, False]
