"""Images in results of tools: how each provider gets them, and models that get none."""

from dataclasses import replace
from typing import Any

import pytest

from hutch.llm.image_support import NOTE, for_account, sees_images
from hutch.llm.interface import Call, FromModel, FromTool, FromUser, Image, Request
from hutch.llm.provider_account import Account
from tests.llm.provider_formats import ANTHROPIC, CHAT, GEMINI, OLLAMA, RESPONSES, Dialect, pieces
from tests.llm.provider_server import Act, playing

pytestmark = pytest.mark.anyio

PNG = Image("image/png", "iVBORw0KGgo=")
MESSAGES = (
    FromUser("look"),
    FromModel("", (Call("a", "read_file", "{}"), Call("b", "bash", "{}"))),
    FromTool("a", "read_file", "An image.", image=PNG),
    FromTool("b", "bash", "text"),
    FromUser("and?"),
)


def account(name: str) -> Account:
    provider, _, model = name.partition(":")
    return Account(provider, model, "key", "http://127.0.0.1")


@pytest.mark.parametrize(
    ("name", "sees"),
    [
        ("anthropic:claude-sonnet-5-5", True),
        ("openai:gpt-5.5", True),
        ("openai:gpt-4o", True),
        ("openai:gpt-4-turbo", True),
        ("gemini:gemini-3.8-flash", True),
        ("openai:gpt-4", False),
        ("openai:gpt-3.5-turbo", False),
        ("openai:o3-mini", False),
        ("ollama:llama3", False),
        ("openai-compatible:qwen3", False),
    ],
)
async def test_models_that_may_not_see_get_a_sentence(name: str, sees: bool) -> None:
    assert sees_images(account(name)) is sees
    shown = for_account(Request("", MESSAGES), account(name)).messages
    assert shown == (MESSAGES if sees else (*MESSAGES[:2], _blind(MESSAGES[2]), *MESSAGES[3:]))


def _blind(message: Any) -> Any:
    return replace(message, text=f"An image.\n{NOTE}", image=None)


async def body(dialect: Dialect) -> Any:
    async with playing(Act(dialect.reply("Seen.", ()))) as wire:
        await pieces(dialect.open(wire), Request("", MESSAGES))
    return wire.bodies[0]


async def test_anthropic_gets_the_image_in_the_result() -> None:
    results = (await body(ANTHROPIC))["messages"][2]["content"]
    assert results[0]["content"] == [
        {"type": "text", "text": "An image."},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG.data}},
    ]
    assert results[1]["content"] == "text"


async def test_openai_responses_gets_the_image_in_the_output() -> None:
    outputs = [
        each for each in (await body(RESPONSES))["input"] if each.get("type") == "function_call_output"
    ]
    assert outputs[0]["output"] == [
        {"type": "input_text", "text": "An image."},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="},
    ]
    assert outputs[1]["output"] == "text"


async def test_openai_chat_gets_the_image_after_all_results_of_a_reply() -> None:
    messages = (await body(CHAT))["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert messages[2]["content"] == "An image."
    assert messages[4]["content"] == [
        {"type": "text", "text": "The image of the result a:"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
    ]


async def test_gemini_gets_the_image_beside_the_response() -> None:
    parts = (await body(GEMINI))["contents"][2]["parts"]
    assert [next(iter(part)) for part in parts] == [
        "functionResponse",
        "inlineData",
        "functionResponse",
        "text",
    ]
    assert parts[1]["inlineData"] == {"mimeType": "image/png", "data": PNG.data}


async def test_a_local_model_gets_only_text() -> None:
    sent = await body(OLLAMA)
    assert PNG.data not in str(sent) and NOTE in str(sent)
