"""Options that a provider refuses are refused before a run starts."""

import pytest

from hutch.domain.errors import BadRequest
from hutch.domain.generation_options import Generation
from hutch.llm.generation_option_check import check_generation


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("anthropic:claude-test", Generation(temperature=1.5), "anthropic accepts at most 1"),
        ("anthropic:claude-test", Generation(0.5, effort="low"), "either a temperature or an effort"),
        ("openai:gpt-test", Generation(0.5, effort="low"), "either a temperature or an effort"),
    ],
)
def test_options_that_do_not_fit_the_provider(model: str, options: Generation, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        check_generation(model, options)


@pytest.mark.parametrize(
    "model", ["gemini:gemini-test", "ollama:qwen", "openai-compatible:x", "scripted:/a.json"]
)
def test_options_that_fit(model: str) -> None:
    check_generation(model, Generation(1.5, 100, "high"))
    check_generation("anthropic:claude-test", Generation(max_reply_tokens=9, effort="high"))
    check_generation("openai:gpt-test", Generation(temperature=1.5))
