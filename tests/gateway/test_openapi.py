"""The OpenAPI document is complete, names everything, and matches the union of events."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from hutch.domain.events import EVENT_TYPES

PATH = Path(__file__).parents[2] / "docs/openapi.json"
DOCUMENT: dict[str, Any] = json.loads(PATH.read_text())
SCHEMAS = DOCUMENT["components"]["schemas"]


def operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, methods in DOCUMENT["paths"].items():
        for method, operation in methods.items():
            yield f"{method.upper()} {path}", operation


def test_every_operation_has_a_unique_name_and_a_summary() -> None:
    names = [operation["operationId"] for _, operation in operations()]
    assert len(names) == len(set(names))
    assert [name for name in names if not re.fullmatch(r"[a-z][a-z_]+", name)] == []
    assert [where for where, operation in operations() if not operation.get("tags")] == []


def test_every_reference_leads_somewhere_and_nothing_is_left_over() -> None:
    named = set(re.findall(r'"#/components/schemas/(\w+)"', PATH.read_text()))
    assert named == set(SCHEMAS)


def test_every_error_is_a_problem() -> None:
    problem = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}
    for where, operation in operations():
        for status in ("4XX", "5XX"):
            assert operation["responses"][status]["content"] == problem, where


def test_every_post_of_ours_takes_a_key() -> None:
    without = [
        where
        for where, operation in operations()
        if where.startswith("POST /api/v1/sessions")
        and "idempotency-key" not in [each["name"] for each in operation.get("parameters", ())]
    ]
    assert without == []


def test_the_union_has_every_event() -> None:
    mapping = SCHEMAS["Event"]["discriminator"]["mapping"]
    assert set(mapping) == set(EVENT_TYPES)
    for type_, reference in mapping.items():
        schema = SCHEMAS[reference.rpartition("/")[2]]
        assert schema["properties"]["type"]["const"] == type_


@pytest.mark.parametrize("name", SCHEMAS)
def test_every_schema_is_one_and_its_examples_fit(name: str) -> None:
    schema = SCHEMAS[name]
    Draft202012Validator.check_schema(schema)
    whole = {**schema, "components": DOCUMENT["components"]}
    for example in schema.get("examples", ()):
        Draft202012Validator(whole).validate(example)
