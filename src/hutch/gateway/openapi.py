"""The OpenAPI document: what clients are generated from."""

from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from hutch import __version__
from hutch.gateway.answers import to_json
from hutch.gateway.problem import Problem

URL = "/api/openapi.json"
DESCRIPTION = """\
Sessions of coding agents in jails. Give inputs to a session, follow its events; see its files as they change.

Errors are `application/problem+json` with a stable `code`. Lists are told in pages: ask again with `next`.
A POST with an `Idempotency-Key` is done once, however often it is sent.
"""


def describe(app: FastAPI) -> dict[str, Any]:
    """The document of an application."""
    document = get_openapi(
        title="Hutch",
        version=__version__,
        description=DESCRIPTION,
        routes=app.routes,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
    )
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= {**problem.pop("$defs", {}), "Problem": problem}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


async def serve(request: Request) -> Response:
    """The document, made once."""
    if not request.app.openapi_schema:
        request.app.openapi_schema = describe(request.app)
    return Response(to_json(request.app.openapi_schema), media_type="application/json")
