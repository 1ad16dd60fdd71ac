"""Options of sessions on the command line and at the attach prompt."""

from typing import Any

import pytest

from hutch.cli.screens.typed_line_parser import TypedInput, parse_line
from hutch.cli.session_option_parsing import parse_options, parse_resources
from hutch.domain.errors import BadRequest
from hutch.domain.session_jail_resource_limits import Resources


def test_sizes_have_units() -> None:
    assert parse_resources(["memory_bytes=1.5GiB", "file-bytes=10MiB", "cpus=0.5", "processes=40"]) == (
        Resources(memory_bytes=3 * 1024**3 // 2, file_bytes=10 * 1024**2, cpus=0.5, processes=40)
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("memory=1GiB", "There is no limit 'memory'"),
        ("memory_bytes", "is no NAME=VALUE"),
        ("memory_bytes=lots", "give a size such as 512MiB"),
        ("memory_bytes=1KiB", "give a value from"),
        ("processes=3.5", "give a whole number"),
        ("cpus=nan", "give a value from"),
        ("processes=999999999", "give a value from"),
    ],
)
def test_wrong_limits_are_refused(text: str, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_resources([text])


@pytest.mark.parametrize(
    ("texts", "body"),
    [
        (["persona=pair", "model=default"], {"persona": "pair", "model": ""}),
        (["network=a.org,b.org:8443"], {"network": ["a.org", "b.org:8443"]}),
        (["network=none"], {"network": []}),
        (["turns=5", "cost_usd=default"], {"limits": {"turns": 5, "cost_usd": None}}),
        (["effort=high", "temperature=0.2"], {"generation": {"effort": "high", "temperature": 0.2}}),
        (["memory_bytes=default"], {"resources": {"memory_bytes": None}}),
    ],
)
def test_options_become_the_body_of_a_request(texts: list[str], body: dict[str, Any]) -> None:
    assert parse_options(texts) == body


def test_commands_of_the_prompt_change_options() -> None:
    assert parse_line("/persona pair") == TypedInput("change", {"persona": "pair"})
    assert parse_line("/model ollama:qwen3:8b") == TypedInput("change", {"model": "ollama:qwen3:8b"})
    assert parse_line("/set effort=low turns=9") == TypedInput(
        "change", {"generation": {"effort": "low"}, "limits": {"turns": 9}}
    )
    for line, words in {
        "/persona": "Type /persona NAME",
        "/persona a b": "Type /persona NAME",
        "/set": "Type /set NAME=VALUE",
        "/set effort=vast": "choose one of low, medium, high",
        "/set color=red": "There is no option 'color'",
    }.items():
        typed = parse_line(line)
        assert typed.kind == "unknown" and words in typed.fields["why"]
