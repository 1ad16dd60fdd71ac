"""The Anthropic provider against a server with its protocol."""

import dataclasses

import pytest

from hutch.domain.errors import Denied, HutchError, LimitReached, NotFound
from hutch.llm.interface import (
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Finish,
    FromModel,
    FromTool,
    FromUser,
    Request,
    Text,
    Thinking,
    ToolSpec,
    Usage,
)
from tests.llm.provider_formats import (
    ANTHROPIC,
    KEY,
    anthropic_error,
    anthropic_event,
    as_message,
    pieces,
    reply,
)
from tests.llm.provider_server import Act, answer, event, playing

pytestmark = pytest.mark.anyio

BASH = ToolSpec("bash", "Run a command.", {"type": "object", "properties": {"command": {"type": "string"}}})
MARK = {"cache_control": {"type": "ephemeral"}}
THOUGHTS = [
    {"type": "thinking", "thinking": "Look first.", "signature": "c2lnbmVk"},
    {"type": "redacted_thinking", "data": "c2VjcmV0"},
]


def thoughtful() -> list[bytes]:
    """A reply on the wire: thoughts, text, then two calls, with pings between."""
    usage = {"input_tokens": 12, "cache_creation_input_tokens": 300, "cache_read_input_tokens": 1000}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 2, "service_tier": "standard"},
    }

    def begin(index: int, **block: object) -> bytes:
        return anthropic_event("content_block_start", index=index, content_block=block)

    def more(index: int, **delta: object) -> bytes:
        return anthropic_event("content_block_delta", index=index, delta=delta)

    def end(index: int) -> bytes:
        return anthropic_event("content_block_stop", index=index)

    return [
        anthropic_event("message_start", message=message),
        begin(0, type="thinking", thinking="", signature=""),
        anthropic_event("ping"),
        more(0, type="thinking_delta", thinking="Look "),
        more(0, type="thinking_delta", thinking="first."),
        more(0, type="signature_delta", signature="c2lnbmVk"),
        end(0),
        begin(1, **THOUGHTS[1]),
        end(1),
        begin(2, type="text", text=""),
        more(2, type="text_delta", text="I will "),
        more(2, type="text_delta", text="look."),
        end(2),
        begin(3, type="tool_use", id="toolu_1", name="bash", input={}),
        more(3, type="input_json_delta", partial_json=""),
        more(3, type="input_json_delta", partial_json='{"command": '),
        more(3, type="input_json_delta", partial_json='"ls"}'),
        end(3),
        begin(4, type="tool_use", id="toolu_2", name="bash", input={}),
        more(4, type="input_json_delta", partial_json="{}"),
        end(4),
        anthropic_event(
            "message_delta",
            delta={"stop_reason": "tool_use", "stop_sequence": None},
            usage={**usage, "output_tokens": 40},
        ),
        anthropic_event("message_stop"),
    ]


async def test_a_reply_is_streamed() -> None:
    async with playing(Act(thoughtful())) as wire:
        got = await pieces(ANTHROPIC.open(wire), Request("Be good.", (FromUser("go"),), (BASH,)))
    assert got == [
        Usage(input=1312, cached=1000, cache_written=300, output=2),
        Thinking("Look "),
        Thinking("first."),
        Text("I will "),
        Text("look."),
        CallStarted("toolu_1", "bash"),
        CallArguments("toolu_1", '{"command": '),
        CallArguments("toolu_1", '"ls"}'),
        CallEnded("toolu_1"),
        CallStarted("toolu_2", "bash"),
        CallArguments("toolu_2", "{}"),
        CallEnded("toolu_2"),
        Usage(output=38),
        Finish(
            "calls",
            {
                "anthropic": {
                    "parts": [
                        {"thought": THOUGHTS[0]},
                        {"thought": THOUGHTS[1]},
                        {"text": 12},
                        {"call": "toolu_1"},
                        {"call": "toolu_2"},
                    ]
                }
            },
        ),
    ]


async def test_the_first_request() -> None:
    async with playing(Act(thoughtful())) as wire:
        request = Request("Be good.", (FromUser("go"),), (BASH,), max_tokens=99, temperature=0.5)
        await pieces(ANTHROPIC.open(wire), request)
    [asked] = wire.requests
    assert (asked.method, asked.path) == ("POST", "/v1/messages")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "claude-test",
        "max_tokens": 99,
        "temperature": 0.5,
        "stream": True,
        "system": [{"type": "text", "text": "Be good.", **MARK}],
        "tools": [
            {
                "name": "bash",
                "description": "Run a command.",
                "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}},
            }
        ],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "go", **MARK}]}],
    }


async def test_replies_are_sent_back_with_unchanged_thoughts() -> None:
    async with playing(Act(thoughtful()), Act(ANTHROPIC.reply("Done.", ()))) as wire:
        first = await reply(ANTHROPIC.open(wire))
        messages = (
            FromUser("go"),
            as_message(first),
            FromTool("toolu_1", "bash", "a.py"),
            FromTool("toolu_2", "bash", "no command", ok=False),
            FromUser("and now?"),
        )
        assert (await reply(ANTHROPIC.open(wire), Request("", messages))).text == "Done."
    assert wire.bodies[1] == {
        "model": "claude-test",
        "max_tokens": 16384,
        "stream": True,
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "go", **MARK}]},
            {
                "role": "assistant",
                "content": [
                    *THOUGHTS,
                    {"type": "text", "text": "I will look."},
                    {"type": "tool_use", "id": "toolu_1", "name": "bash", "input": {"command": "ls"}},
                    {"type": "tool_use", "id": "toolu_2", "name": "bash", "input": {}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_1",
                        "content": "a.py",
                        "is_error": False,
                    },
                    {
                        "type": "tool_result",
                        "tool_use_id": "toolu_2",
                        "content": "no command",
                        "is_error": True,
                    },
                    {"type": "text", "text": "and now?", **MARK},
                ],
            },
        ],
    }


async def test_content_that_the_service_would_refuse_is_adapted() -> None:
    """Blanks, arguments that are no JSON, and ids of another provider."""
    messages = (
        FromUser(" "),
        FromModel("\n", (Call("functions.bash:0", "bash", "{oops"),)),
        FromTool("functions.bash:0", "bash", ""),
    )
    async with playing(Act(ANTHROPIC.reply("Done.", ()))) as wire:
        await reply(ANTHROPIC.open(wire), Request("", messages))
    call = {"type": "tool_use", "id": "functions_bash_0", "name": "bash", "input": {"invalid": "{oops"}}
    assert wire.bodies[0]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "(empty)", **MARK}]},
        {"role": "assistant", "content": [call]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "functions_bash_0",
                    "content": "(empty)",
                    "is_error": False,
                    **MARK,
                }
            ],
        },
    ]


@pytest.mark.parametrize(
    ("kind", "message", "error"),
    [
        ("authentication_error", "expired", Denied),
        ("billing_error", "no money", LimitReached),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", LimitReached),
        ("not_found_error", "model: claude-test", NotFound),
    ],
)
async def test_refusals_inside_a_stream(kind: str, message: str, error: type[HutchError]) -> None:
    failure = event(anthropic_error(200, kind, message), "error")
    async with playing(Act([*thoughtful()[:3], failure])) as wire:
        with pytest.raises(error, match=message):
            await pieces(ANTHROPIC.open(wire))
    assert len(wire.bodies) == 1


async def test_similar_names_come_from_the_price_list_when_the_provider_lists_none() -> None:
    unknown = answer(404, anthropic_error(404, "not_found_error", "model: claude-test"))
    async with playing(unknown) as wire:
        model = dataclasses.replace(ANTHROPIC, model="claude-sonet-4-5").open(wire)
        with pytest.raises(NotFound, match=r"Did you mean anthropic:claude-sonnet-4-5 or anthropic:"):
            await pieces(model)


async def test_tokens_of_a_reply_that_broke_are_counted() -> None:
    async with playing(Act(thoughtful()[:4], ending="cut"), Act(thoughtful())) as wire:
        got = await reply(ANTHROPIC.open(wire))
    assert got.usage == Usage(input=2 * 1312, cached=2000, cache_written=600, output=42)
