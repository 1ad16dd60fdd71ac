"""Analytics: outcomes, spend, reliability, latency, waterfalls and annotations."""

import csv
import io
from collections.abc import Sequence
from typing import Annotated

from fastapi import Path, Query, Request, Response
from pydantic import Field

from hutch.domain.errors import NotFound
from hutch.domain.ids import new_annotation_id
from hutch.domain.one_line_text import echo
from hutch.domain.time_parsing import parse_moment_ms
from hutch.domain.user import Caller
from hutch.flows.analytics.report_columns import Unit, Value
from hutch.flows.analytics.reports import (
    Report,
    ReportName,
    ReportRequest,
    Step,
    iso_time,
    make_report,
)
from hutch.flows.analytics.session_waterfall import Span, session_waterfall
from hutch.flows.analytics.spend_forecast import Forecast
from hutch.gateway.auth.caller_dependency import Admin, Reader
from hutch.gateway.idempotency import ByKey
from hutch.gateway.request_and_response_bodies import In, Out, answer, fields_from
from hutch.gateway.rest.base_route import router, server_of
from hutch.store.analytics_queries import AnalyticsGroup
from hutch.store.chart_annotations import Annotation, Annotations
from hutch.system.clock_without_jumps import wall_ms

routes = router("analytics")
CSV = "text/csv"
MAX_FILTER_CHARS = 300
FORMULA = ("=", "+", "-", "@", "\t", "\r")  # a spreadsheet would execute such a cell
Filter = Annotated[str, Query(max_length=MAX_FILTER_CHARS)]
Moment = Annotated[
    str, Query(max_length=40, description="A time: `2026-03-01`, `2026-03-01T12:30`, or an age such as `7d`.")
]
Table = Annotated[
    str, Query(pattern="^(rows|series)$", description="For CSV: the table, or the chart's lines.")
]


class ColumnOut(Out):
    """A column of the table, and a line of the chart."""

    name: str
    title: str
    unit: Unit


class ReportRowOut(Out):
    """A row of the table."""

    key: str = Field(description="An id or a name; empty if it is unknown.")
    label: str = Field(description="The key for people.")
    values: dict[str, Value] = Field(description="By column; null where a value has no meaning.")


class SeriesOut(Out):
    """The lines of one key: for each column one value per time."""

    key: str = Field(description="Empty for the sum of all keys.")
    label: str
    values: dict[str, Sequence[Value]]


@fields_from(Annotation)
class AnnotationOut(Out):
    """A moment that charts mark."""


@fields_from(Forecast)
class ForecastOut(Out):
    """The expected cost of this month, if the daily mean of the last 28 days continues."""


class ReportOut(Out):
    """A chart and the table behind it."""

    name: ReportName
    group: AnalyticsGroup
    step: Step
    from_ms: int
    to_ms: int = Field(description="The end, which is not included.")
    columns: Sequence[ColumnOut]
    rows: Sequence[ReportRowOut] = Field(description="By key, at most 1,000; the most expensive first.")
    total: dict[str, Value] = Field(description="Over everything, also what no row has.")
    times_ms: Sequence[int] = Field(description="The begin of each step: the x axis.")
    series: Sequence[SeriesOut] = Field(description="The sum, and the first 12 keys of the table.")
    annotations: Sequence[AnnotationOut]
    behind: int = Field(description="How many of the newest events are not counted yet.")
    forecast: ForecastOut | None = Field(description="For `spend`.")
    funnel: dict[str, int] = Field(
        description="For `outcomes`: tasks of this time, with a session, with a change, with a merged one."
    )


@fields_from(Span)
class SpanOut(Out):
    """A part of a session's time."""


class WaterfallOut(Out):
    """The spans of a session's time, by their starts."""

    spans: Sequence[SpanOut]
    more: bool


class NewAnnotation(In):
    """A note for charts."""

    text: str = Field(min_length=1, max_length=200)
    at: str = Field("", max_length=40, description="A time as for `since`; empty: now.")


async def _report(
    request: Request,
    caller: Reader,
    name: Annotated[ReportName, Path()],
    group: Annotated[AnalyticsGroup, Query(description="What each row counts.")] = "all",
    step: Annotated[Step, Query(description="The time between two points of the chart.")] = "day",
    since: Moment = "",
    until: Moment = "",
    repository: Filter = "",
    user: Filter = "",
    model: Filter = "",
    persona: Filter = "",
    table: Table = "rows",
) -> Response:
    """A report. Owners see everything, other users their own sessions and those shared with them.

    With `Accept: text/csv` or the path's ending `.csv` it is CSV.
    """
    now_ms = wall_ms()
    asked = ReportRequest(
        name,
        group,
        step,
        parse_moment_ms(since, now_ms) if since else 0,
        parse_moment_ms(until, now_ms) if until else 0,
        *(repository, user, model, persona),
    )
    report = await make_report(server_of(request).rows, caller, asked)
    if request.url.path.endswith(".csv") or _prefers_csv(request):
        lines = _series_lines(report) if table == "series" else _row_lines(report)
        return _csv(f"{name}.csv", lines)
    columns = [ColumnOut.of(column) for column in report.columns]
    return answer({**ReportOut.of(report), "columns": columns})


routes.add_api_route(
    "/analytics/reports/{name}.csv", _report, operation_id="get_report_as_csv", response_class=Response
)
routes.add_api_route(
    "/analytics/reports/{name}", _report, operation_id="get_report", response_model=ReportOut
)


async def _waterfall(request: Request, caller: Reader, session_id: str) -> Response:
    """The spans of a session: models, tools, waiting, tests.

    With `Accept: text/csv` or the path's ending `.csv` they are CSV.
    """
    found = await session_waterfall(server_of(request).services, caller, session_id)
    if request.url.path.endswith(".csv") or _prefers_csv(request):
        names = list(Span.__dataclass_fields__)
        return _csv(
            "waterfall.csv", [names, *([getattr(span, name) for name in names] for span in found.spans)]
        )
    return answer({"spans": found.spans, "more": found.more})


_WATERFALL = "/analytics/sessions/{session_id}/waterfall"
routes.add_api_route(
    f"{_WATERFALL}.csv", _waterfall, operation_id="get_waterfall_as_csv", response_class=Response
)
routes.add_api_route(_WATERFALL, _waterfall, operation_id="get_waterfall", response_model=WaterfallOut)


@routes.get("/analytics/annotations", operation_id="list_annotations", response_model=Sequence[AnnotationOut])
async def annotations(
    request: Request, caller: Reader, since: Moment = "90d", until: Moment = ""
) -> Response:
    """Releases, changed settings and notes, oldest first."""
    now_ms = wall_ms()
    end_ms = parse_moment_ms(until, now_ms) if until else now_ms + 1
    found = await Annotations(server_of(request).rows).between(parse_moment_ms(since, now_ms), end_ms)
    return answer(found)


@routes.post(
    "/analytics/annotations", status_code=201, operation_id="add_annotation", response_model=AnnotationOut
)
async def annotate(request: Request, caller: Admin, keyed: ByKey, body: NewAnnotation) -> Response:
    """Mark a moment in all charts. Only owners may."""
    now_ms = wall_ms()
    at_ms = parse_moment_ms(body.at, now_ms) if body.at else now_ms
    made = Annotation(new_annotation_id(), at_ms, "note", _clean(request, body.text), _id_of(caller))
    await Annotations(server_of(request).rows).add(made)
    return answer(made, 201)


@routes.delete("/analytics/annotations/{annotation}", status_code=204, operation_id="remove_annotation")
async def forget(request: Request, caller: Admin, annotation: str) -> Response:
    """Remove an annotation. Only owners may."""
    if not await Annotations(server_of(request).rows).remove(annotation):
        raise NotFound(f"There is no annotation {echo(annotation, 80)}.")
    return Response(status_code=204)


def _id_of(caller: Caller) -> str:
    return str(caller.user.id)


def _clean(request: Request, text: str) -> str:
    return server_of(request).redactor.redact(text)


def _prefers_csv(request: Request) -> bool:
    accepted = request.headers.get("accept", "")
    return CSV in accepted and "application/json" not in accepted


def _row_lines(report: Report) -> list[list[object]]:
    names = [column.name for column in report.columns]
    lines: list[list[object]] = [["key", "label", *names]]
    lines += [[row.key, row.label, *(row.values[name] for name in names)] for row in report.rows]
    return lines


def _series_lines(report: Report) -> list[list[object]]:
    names = [column.name for column in report.columns]
    lines: list[list[object]] = [["time", "key", "label", *names]]
    for series in report.series:
        for index, at_ms in enumerate(report.times_ms):
            values = (series.values[name][index] for name in names)
            lines.append([iso_time(at_ms), series.key, series.label, *values])
    return lines


def _csv(name: str, lines: Sequence[Sequence[object]]) -> Response:
    text = io.StringIO()
    csv.writer(text).writerows([[_cell(value) for value in line] for line in lines])
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue(), headers=headers, media_type=f"{CSV}; charset=utf-8")


def _cell(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: names come from repositories and models."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
