"""Cassettes, and the page that documents them."""

import os
import re
from pathlib import Path

import pytest

from hutch.domain.errors import BadRequest, NotFound
from hutch.llm.interface import Call, FromTool
from hutch.llm.retry import RetryingModel
from hutch.llm.scripted_reply_file import (
    Cassette,
    Fault,
    Reply,
    ScriptedCall,
    ScriptedUsage,
    When,
    load_cassette,
    parse_cassette,
)
from tests.llm.provider_formats import as_message
from tests.llm.scripted_models import QUICK, reply, scripted

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"replies": [{"texts": "x"}]}', r"replies\.0\.texts: There is no such field"),
        ('{"replies": [{"calls": [{"args": {}}]}]}', r"replies\.0\.calls\.0\.tool: It is missing"),
        ("replies: [", "neither JSON nor YAML"),
        ('{"replies": 3}', "replies: "),
        ("- 1", r"replies\.0"),
    ],
)
def test_an_error_in_a_cassette_is_reported_with_its_location(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_cassette(text, "test")


def test_a_missing_cassette(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="There is no cassette at"):
        load_cassette(tmp_path / "none.json")


def examples() -> list[str]:
    return re.findall(r"```(?:json|yaml)\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.mark.parametrize("text", examples())
def test_the_examples_of_the_page_are_cassettes(text: str) -> None:
    assert parse_cassette(text, "docs/models.md").replies


def test_every_field_of_a_cassette_is_documented() -> None:
    documented = set(re.findall(r"^\| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    kinds = (Cassette, Reply, ScriptedCall, When, Fault, ScriptedUsage)
    words = {name for kind in kinds for name in kind.model_fields}
    assert words - documented == set()


@pytest.mark.anyio
async def test_the_example_on_the_page_plays_as_documented() -> None:
    [story] = [text for text in examples() if "contains: failed" in text]
    model = RetryingModel(scripted(story), QUICK)
    first = await reply(model)
    assert first.calls == (Call("call_0_0", "run_tests", "{}"),)
    failed = FromTool("call_0_0", "run_tests", "1 failed")
    second = await reply(model, as_message(first), failed)
    assert [call.tool for call in second.calls] == ["edit_file", "run_tests"]
    rest = (FromTool("call_1_0", "edit_file", "ok"), FromTool("call_1_1", "run_tests", "3 passed"))
    third = await reply(
        model, as_message(first), FromTool("call_0_0", "run_tests", "1 failed"), as_message(second), *rest
    )
    assert (third.text, third.calls) == ("The test passes now.", ())


@pytest.mark.parametrize("name", [".", "fifo"])
def test_a_cassette_must_be_a_regular_file(tmp_path: Path, name: str) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BadRequest, match="is not a file"):
        load_cassette(tmp_path / name)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000])
def test_a_cassette_that_nests_too_deep(text: str) -> None:
    with pytest.raises(BadRequest, match="neither JSON nor YAML"):
        parse_cassette(text, "test")
