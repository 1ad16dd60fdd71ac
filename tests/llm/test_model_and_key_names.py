"""Names of models, and how keys are set."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.llm.model_and_key_names import ModelName, how_to_set, key_variables, near_names, parse_model_name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("anthropic:claude-x", ModelName("anthropic", "claude-x")),
        ("ollama:qwen3:8b", ModelName("ollama", "qwen3:8b")),
        (" openai-compatible:org/model ", ModelName("openai-compatible", "org/model")),
        ("scripted:/tmp/a b.yaml", ModelName("scripted", "/tmp/a b.yaml")),
    ],
)
def test_a_name_is_a_provider_and_a_model(text: str, name: ModelName) -> None:
    assert parse_model_name(text) == name
    assert parse_model_name(str(name)) == name


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("claude-x", "names no model. Write PROVIDER:NAME"),
        ("antropic:claude-x", r"Did you mean anthropic:claude-x\?"),
        ("openai:", r"Did you mean openai:NAME\?"),
        ("", "names no model"),
        ("openai:gpt\nx", r"'openai:gpt\\nx' is not a model name: it contains a line break"),
        ("ollama:\x1b[31mred", "is not a model name: it contains a line break or another control character"),
    ],
)
def test_an_invalid_name_is_refused_with_a_hint(text: str, hint: str) -> None:
    with pytest.raises(BadRequest, match=hint):
        parse_model_name(text)


@pytest.mark.parametrize(
    "sign",
    ["\n", "\r", "\t", "\v", "\f", "\0", "\x1c", "\x7f", "\x85", "\u2028", "\u2029", "\u202e", "\ufeff"],
)
def test_a_control_character_is_refused_at_any_position(sign: str) -> None:
    for text in (f"{sign}openai:gpt", f"openai:gpt{sign}", f" {sign} openai:gpt", f"openai{sign}:gpt", sign):
        with pytest.raises(BadRequest, match="is not a model name: it contains a line break"):
            parse_model_name(text)


def test_near_names() -> None:
    known = ["claude-sonnet-4-5", "claude-opus-5", "gpt-5.5", "GPT-5.5-mini"]
    assert near_names("claude-sonet-4-5", known)[0] == "claude-sonnet-4-5"
    assert near_names("gpt-5.5-mni", known) == ["GPT-5.5-mini", "gpt-5.5"]
    assert near_names("zzz", known) == []


def test_how_a_key_is_set() -> None:
    assert how_to_set("openai-compatible") == (
        "Set it with `hutch config set-secret openai_compatible_api_key`, or in the environment as "
        "OPENAI_COMPATIBLE_API_KEY (in that of the server, if one runs)."
    )
    assert key_variables("gemini") == ("GEMINI_API_KEY", "GOOGLE_API_KEY")
