"""The thinking effort, in the words of each provider."""

from typing import Any

import pytest

from hutch.domain.generation_options import Effort
from hutch.llm.http_model import HttpModel
from hutch.llm.interface import FromUser, Request
from hutch.llm.model_and_key_names import key_name, parse_model_name
from hutch.llm.model_factory import Access, _open

pytestmark = pytest.mark.anyio


async def body_of(model: str, effort: Effort | None, *, chat: bool = False) -> dict[str, Any]:
    name = parse_model_name(model)
    access = Access(
        keys={key_name(name.provider): "key"},
        base_urls={name.provider: "http://127.0.0.1:1/v1"},
        openai_protocol="chat" if chat else "responses",
    )
    opened = _open(name, access)
    assert isinstance(opened, HttpModel)
    try:
        return opened._body(Request("", (FromUser("go"),), effort=effort, max_tokens=7))
    finally:
        await opened.close()


async def test_each_provider_has_its_own_words() -> None:
    anthropic = await body_of("anthropic:claude-test", "high")
    assert anthropic["thinking"] == {"type": "adaptive"}
    assert (anthropic["output_config"], anthropic["max_tokens"]) == ({"effort": "high"}, 7)
    responses = await body_of("openai:gpt-test", "low")
    assert (responses["reasoning"], responses["max_output_tokens"]) == ({"effort": "low"}, 7)
    chat = await body_of("openai:gpt-test", "low", chat=True)
    assert (chat["reasoning_effort"], chat["max_completion_tokens"]) == ("low", 7)
    assert (await body_of("ollama:qwen", "medium"))["reasoning_effort"] == "medium"
    config = (await body_of("gemini:gemini-3.8-flash", "medium"))["generationConfig"]
    assert config == {"maxOutputTokens": 7, "thinkingConfig": {"thinkingLevel": "medium"}}
    older = (await body_of("gemini:gemini-2.5-pro", "medium"))["generationConfig"]
    assert older["thinkingConfig"] == {"thinkingBudget": 8192}


@pytest.mark.parametrize("model", ["anthropic:a", "openai:a", "gemini:a", "ollama:a", "openai-compatible:a"])
async def test_nothing_is_sent_when_no_effort_is_set(model: str) -> None:
    words = str(await body_of(model, None))
    assert "effort" not in words and "think" not in words.lower()
