"""Turns every error into application/problem+json (RFC 9457).

An exception that is no `HutchError` is a bug: the caller gets only the trace id, and the
log has the details under that id.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from hutch.domain.errors import (
    DataGone,
    HutchError,
    LimitReached,
    MergeConflict,
    TooManyRequests,
    Unauthenticated,
    WorkWouldBeLost,
)
from hutch.domain.redaction import Redactor
from hutch.domain.validation_messages import describe, location
from hutch.gateway.http_error_table import (
    INTERNAL,
    INVALID,
    ErrorStatus,
    RangeNotSatisfiable,
    error_status,
    status_for,
)
from hutch.gateway.request_and_response_bodies import to_json
from hutch.logs import current_trace_id

MEDIA_TYPE = "application/problem+json"
MAX_ERRORS = 50
MAX_LOCATION_CHARS = 200
MAX_MEDIA_TYPE_CHARS = 100
READ_METHODS = ("GET", "HEAD", "OPTIONS")

logger = structlog.get_logger()


class FieldError(BaseModel):
    """One invalid field of a request."""

    at: str = Field(description="The path of the field, such as `body.limits.turns` or `query.limit`.")
    message: str


class Problem(BaseModel):
    """An error. Programs match on `code`, people read `detail`."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "type": "about:blank",
                    "title": "Not Found",
                    "status": 404,
                    "code": "not_found",
                    "detail": "There is no session 'ses_01jd2m4c9k7w6t0q8n5x3vbaeh'.",
                    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
                }
            ]
        }
    )

    type: str = Field("about:blank", description="Always `about:blank`; `code` identifies the error.")
    title: str = Field(description="The name of the status.")
    status: int
    code: str = Field(description="A stable name for programs; see docs/errors.md.")
    detail: str = Field(description="For people: the object, the value, and the remedy.")
    trace_id: str | None = Field(None, description="The id of this request in the server's log.")
    errors: list[FieldError] | None = Field(None, description="With `invalid`: the invalid fields.")
    paths: list[str] | None = Field(
        None,
        description="With `conflict`, of a merge: where it is; of an undo: files that others changed too.",
    )
    limit: str | None = Field(None, description="With `limit_reached`: the limit's name.")
    retry_after_s: int | None = Field(None, description="With `too_many_requests`: the seconds to wait.")


def problem(
    status: ErrorStatus, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
) -> Response:
    """A response that describes an error."""
    body = {
        "type": "about:blank",
        "title": status.title,
        "status": status.status,
        "code": status.code,
        "detail": detail,
        "trace_id": current_trace_id(),
        **more,
    }
    return Response(to_json(body), status.status, dict(headers or {}), MEDIA_TYPE)


def error_response(error: HutchError, redactor: Redactor) -> Response:
    """The response to a `HutchError`; secrets are removed from its message."""
    status = error_status(error)
    if status is INTERNAL:
        return bug_response(error)
    headers: dict[str, str] = {}
    more: dict[str, Any] = {}
    if isinstance(error, LimitReached):
        more["limit"] = error.limit
    if isinstance(error, MergeConflict | WorkWouldBeLost):
        more["paths"] = [redactor.redact(path) for path in error.paths[:MAX_ERRORS]]
    if isinstance(error, TooManyRequests):
        more["retry_after_s"] = error.retry_after_s
        headers["Retry-After"] = str(error.retry_after_s)
    if isinstance(error, Unauthenticated):
        headers["WWW-Authenticate"] = "Bearer"
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    return problem(status, redactor.redact(str(error)), headers=headers, **more)


def bug_response(error: Exception) -> Response:
    """The response to an unexpected exception, which is logged."""
    logger.error("request.failed", exc_info=error)
    detail = "Something went wrong in the server. Its log says more under this trace id."
    return problem(INTERNAL, detail)


def handle_problems(app: FastAPI, redactor: Redactor, check_data: Callable[[], None] = lambda: None) -> None:
    """Install error handlers in an application; `check_data` raises when its data are gone."""

    async def ours(request: Request, error: Exception) -> Response:
        if request.method not in READ_METHODS:  # a missing data directory causes errors of all kinds
            try:
                await asyncio.to_thread(check_data)
            except DataGone as gone:
                return error_response(gone, redactor)
        return error_response(error, redactor) if isinstance(error, HutchError) else bug_response(error)

    async def http(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            return bug_response(error)
        headers = dict(error.headers or {})
        if error.status_code == 405 and (allowed := _allowed_methods(request)):
            headers["Allow"] = allowed
        return problem(status_for(error.status_code), _of_router(request, error, headers), headers=headers)

    async def invalid(request: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            return bug_response(error)
        faults = error.errors()
        if isinstance(error.body, bytes) and any(each["loc"][0] == "body" for each in faults):
            return problem(status_for(415), redactor.redact(_not_json(request)))
        errors = [
            {
                "at": redactor.redact(location(each))[:MAX_LOCATION_CHARS],
                "message": redactor.redact(describe(each)),
            }
            for each in faults[:MAX_ERRORS]
        ]
        first = f" {errors[0]['at']}: {errors[0]['message']}." if errors else ""
        return problem(INVALID, f"The request is not valid.{first}", errors=errors)

    app.add_exception_handler(HutchError, ours)
    app.add_exception_handler(HTTPException, http)
    app.add_exception_handler(RequestValidationError, invalid)


def _not_json(request: Request) -> str:
    """Explains a body that was not read because it was not declared as JSON; curl -d declares a form."""
    kind = request.headers.get("content-type", "")[:MAX_MEDIA_TYPE_CHARS]
    declared = f"Its Content-Type is {kind}" if kind else "It has no Content-Type"
    return f"The body was not read. {declared}: send Content-Type: application/json."


def _allowed_methods(request: Request) -> str:
    """The methods of all routes with this path; the router itself knows only those of the first one."""
    routes = [route for route in request.app.routes if isinstance(route, Route)]
    found = [route.methods or set() for route in routes if route.matches(request.scope)[0] is Match.PARTIAL]
    return ", ".join(sorted(set().union(*found)))


def _of_router(request: Request, error: HTTPException, headers: Mapping[str, str]) -> str:
    if error.status_code == 404:
        return "There is nothing at this address. /api/openapi.json lists all routes."
    if error.status_code == 405:
        allowed = headers.get("Allow", "")
        return f"{request.method} is not supported here.{f' Supported: {allowed}.' if allowed else ''}"
    return str(error.detail)
