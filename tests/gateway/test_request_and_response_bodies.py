"""Responses take their fields from the domain, and publish no other fields."""

from dataclasses import dataclass

from pydantic import Field

from hutch.gateway.request_and_response_bodies import Out, fields_from


@dataclass(frozen=True)
class Stored:
    id: str
    size: int
    note: str = ""
    secret: str = ""


@fields_from(Stored, "id size note")
class StoredOut(Out):
    """Something that is stored."""

    size: int = Field(description="In bytes.")
    owner_name: str


def test_an_answer_has_the_fields_that_it_names_and_its_own() -> None:
    schema = StoredOut.model_json_schema()
    assert schema["required"] == ["id", "size", "note", "owner_name"]
    assert schema["properties"]["size"] == {"description": "In bytes.", "title": "Size", "type": "integer"}
    assert (schema["title"], schema["description"]) == ("StoredOut", "Something that is stored.")


def test_nothing_leaves_that_an_answer_does_not_name() -> None:
    @fields_from(Stored, "id size")
    class ShortOut(Out):
        pass

    assert ShortOut.of(Stored("a", 3, "b", "c")) == {"id": "a", "size": 3}


def test_without_names_all_fields_are_taken() -> None:
    @fields_from(Stored)
    class WholeOut(Out):
        pass

    assert list(WholeOut.model_fields) == ["id", "size", "note", "secret"]
