"""The OpenAPI document, from which clients are generated."""

import re
from collections.abc import Iterator
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from hutch import __version__
from hutch.domain.events import json_schema
from hutch.gateway.problem_json import Problem
from hutch.gateway.request_and_response_bodies import to_json

URL = "/api/openapi.json"
DESCRIPTION = """\
Sessions of coding agents in jails. Give inputs to a session, follow its events, read and change its files.

Errors are `application/problem+json` with a stable `code`. Lists are paged: `next` gives the next page.
A POST with an `Idempotency-Key` is executed once, however often it is sent.
"""
SCHEMAS = "#/components/schemas/"
_OUT = re.compile(r"^(?!LogOut$)(Page_)?(\w+?)Out_?$")


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
    problem = Problem.model_json_schema(ref_template=f"{SCHEMAS}{{model}}")
    schemas |= {**problem.pop("$defs", {}), "Problem": problem, "Event": _event_union()}
    schemas["EntryOut"]["properties"]["event"]["anyOf"][0] = {"$ref": f"{SCHEMAS}Event"}
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document = _renamed(document, _plain_names(schemas))
    document["components"]["schemas"] = dict(sorted(document["components"]["schemas"].items()))
    for operation in _operations(document):
        _clean_up(operation)
    return document


async def serve(request: Request) -> Response:
    """The document, made once."""
    if not request.app.openapi_schema:
        request.app.openapi_schema = describe(request.app)
    return Response(to_json(request.app.openapi_schema), media_type="application/json")


def _event_union() -> dict[str, Any]:
    """The union of all events by type; the schemas of event pages define its members."""
    union = json_schema()
    text = orjson.dumps({name: union[name] for name in ("oneOf", "discriminator")})
    return dict(orjson.loads(text.replace(b"#/$defs/", SCHEMAS.encode())))


def _plain_names(schemas: dict[str, Any]) -> dict[str, str]:
    """Map `SessionOut` to Session and `Page_SessionOut_` to SessionPage, unless that name is taken."""
    names: dict[str, str] = {}
    for name in schemas:
        if found := _OUT.fullmatch(name):
            plain = f"{found[2]}Page" if found[1] else found[2]
            if plain not in schemas and plain not in names.values():
                names[name] = plain
    return names


def _renamed(document: dict[str, Any], names: dict[str, str]) -> dict[str, Any]:
    schemas = document["components"]["schemas"]
    document["components"]["schemas"] = {names.get(name, name): value for name, value in schemas.items()}
    for name, plain in names.items():
        schemas[name]["title"] = plain
    text = orjson.dumps(document).decode()
    pattern = re.compile(rf'"{re.escape(SCHEMAS)}(\w+)"')
    return dict(orjson.loads(pattern.sub(lambda m: f'"{SCHEMAS}{names.get(m[1], m[1])}"', text)))


def _operations(document: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path in document["paths"].values():
        yield from (operation for operation in path.values() if isinstance(operation, dict))


def _clean_up(operation: dict[str, Any]) -> None:
    """Use the first line as the summary, and shorten descriptions of responses."""
    first, _, _ = operation.get("description", "").partition("\n")
    if first:
        operation["summary"] = first.rstrip(".")
    for status, answer in operation["responses"].items():
        answer.get("content", {}).get("text/event-stream", {}).pop(
            "schema", None
        )  # OpenAPI cannot describe the frames of a stream
        if answer.get("description") == "Successful Response":
            answer["description"] = {"201": "Created.", "202": "Accepted.", "204": "Done."}.get(
                status, "The result."
            )
