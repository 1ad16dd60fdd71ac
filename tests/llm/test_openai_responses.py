"""OpenAI's Responses protocol against a server with that protocol."""

import pytest

from hutch.domain.errors import BadRequest, HutchError, LimitReached, Unavailable
from hutch.llm.interface import (
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Finish,
    FromTool,
    FromUser,
    Request,
    Text,
    Thinking,
    ToolSpec,
    Usage,
)
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, open_model
from tests.llm.provider_formats import (
    KEY,
    RESPONSES,
    as_message,
    pieces,
    reply,
    responses_event,
    responses_reply,
    responses_whole,
)
from tests.llm.provider_server import Act, playing

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
BASH = ToolSpec("bash", "Run a command.", SCHEMA)


def thought(number: int) -> dict[str, object]:
    summary = [{"type": "summary_text", "text": "Look first."}]
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": summary,
        "encrypted_content": f"gAAA{number}",
    }


def call(index: int, id_: str, *arguments: str) -> list[bytes]:
    item = {"id": f"fc_{index}", "type": "function_call", "call_id": id_, "name": "bash", "arguments": ""}
    return [
        responses_event("response.output_item.added", output_index=index, item=item),
        *(
            responses_event(
                "response.function_call_arguments.delta",
                item_id=f"fc_{index}",
                output_index=index,
                delta=part,
            )
            for part in arguments
        ),
        responses_event(
            "response.function_call_arguments.done",
            item_id=f"fc_{index}",
            output_index=index,
            name="bash",
            arguments="".join(arguments),
        ),
        responses_event(
            "response.output_item.done",
            output_index=index,
            item={**item, "arguments": "".join(arguments) or '{"command": "pwd"}', "status": "completed"},
        ),
    ]


def thoughtful() -> list[bytes]:
    """A reply on the wire: a thought, a remark, a call, another thought, another call, all whole at once."""
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "status": "in_progress",
        "content": [],
        "phase": "commentary",
    }
    at = {"item_id": "msg_1", "output_index": 1, "content_index": 0}
    return [
        responses_event("response.created", response=responses_whole("in_progress", usage=None)),
        responses_event("response.in_progress", response=responses_whole("in_progress", usage=None)),
        responses_event(
            "response.output_item.added",
            output_index=0,
            item={"id": "rs_0", "type": "reasoning", "summary": []},
        ),
        responses_event(
            "response.reasoning_summary_text.delta",
            item_id="rs_0",
            output_index=0,
            summary_index=0,
            delta="Look first.",
        ),
        responses_event(
            "response.output_item.done", output_index=0, item={**thought(0), "status": "completed"}
        ),
        responses_event("response.output_item.added", output_index=1, item=message),
        responses_event("response.output_text.delta", **at, delta="I will ", logprobs=[]),
        responses_event("response.output_text.delta", **at, delta="look.", logprobs=[]),
        responses_event("response.output_text.done", **at, text="I will look.", logprobs=[]),
        responses_event("response.output_item.done", output_index=1, item={**message, "status": "completed"}),
        *call(2, "call_a", '{"command": ', '"ls"}'),
        responses_event(
            "response.output_item.done", output_index=3, item={**thought(3), "status": "completed"}
        ),
        *call(4, "call_b"),
        responses_event("response.completed", response=responses_whole()),
    ]


async def test_a_reply_is_streamed() -> None:
    async with playing(Act(thoughtful())) as wire:
        got = await pieces(RESPONSES.open(wire))
    assert got == [
        Thinking("Look first."),
        Text("I will "),
        Text("look."),
        CallStarted("call_a", "bash"),
        CallArguments("call_a", '{"command": '),
        CallArguments("call_a", '"ls"}'),
        CallEnded("call_a"),
        CallStarted("call_b", "bash"),
        CallArguments("call_b", '{"command": "pwd"}'),
        CallEnded("call_b"),
        Usage(input=10, cached=4, cache_written=2, output=5),
        Finish(
            "calls",
            {
                "openai": {
                    "parts": [
                        {"thought": thought(0)},
                        {"text": 12, "mark": {"phase": "commentary"}},
                        {"call": "call_a"},
                        {"thought": thought(3)},
                        {"call": "call_b"},
                    ]
                }
            },
        ),
    ]


async def test_the_first_request() -> None:
    async with playing(Act(thoughtful())) as wire:
        request = Request("Be good.", (FromUser("go"),), (BASH,), max_tokens=99, temperature=0.5)
        await pieces(RESPONSES.open(wire), request)
    [asked] = wire.requests
    assert (asked.method, asked.path) == ("POST", "/v1/responses")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "gpt-test",
        "instructions": "Be good.",
        "input": [{"role": "user", "content": "go"}],
        "max_output_tokens": 99,
        "temperature": 0.5,
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "parallel_tool_calls": True,
        "tools": [
            {
                "type": "function",
                "name": "bash",
                "description": "Run a command.",
                "parameters": SCHEMA,
                "strict": False,
            }
        ],
    }


async def test_replies_are_sent_back_in_order_with_unchanged_thoughts() -> None:
    async with playing(Act(thoughtful()), Act(responses_reply("Done."))) as wire:
        first = await reply(RESPONSES.open(wire))
        messages = (
            FromUser("go"),
            as_message(first),
            FromTool("call_a", "bash", "a.py"),
            FromTool("call_b", "bash", "no command", ok=False),
        )
        assert (await reply(RESPONSES.open(wire), Request("", messages))).text == "Done."

    def call_item(id_: str, arguments: str) -> dict[str, object]:
        return {"type": "function_call", "call_id": id_, "name": "bash", "arguments": arguments}

    assert wire.bodies[1]["input"] == [
        {"role": "user", "content": "go"},
        thought(0),
        {"role": "assistant", "content": "I will look.", "phase": "commentary"},
        call_item("call_a", '{"command": "ls"}'),
        thought(3),
        call_item("call_b", '{"command": "pwd"}'),
        {"type": "function_call_output", "call_id": "call_a", "output": "a.py"},
        {"type": "function_call_output", "call_id": "call_b", "output": "Error: no command"},
    ]


async def test_models_that_do_not_think_are_not_asked_for_thoughts() -> None:
    async with playing(Act(responses_reply("x"))) as wire:
        access = Access(keys={"openai_api_key": KEY}, base_urls={"openai": f"{wire.url}/v1"})
        await pieces(open_model(parse_model_name("openai:gpt-4.1"), access))
    assert "include" not in wire.bodies[0]


@pytest.mark.parametrize(
    ("ending", "finish"),
    [
        (
            responses_event(
                "response.incomplete",
                response=responses_whole("incomplete", incomplete_details={"reason": "max_output_tokens"}),
            ),
            "length",
        ),
        (
            responses_event(
                "response.incomplete",
                response=responses_whole("incomplete", incomplete_details={"reason": "content_filter"}),
            ),
            "refused",
        ),
        (
            responses_event(
                "response.refusal.delta", item_id="m", output_index=0, content_index=0, delta="No."
            )
            + responses_event("response.completed", response=responses_whole()),
            "refused",
        ),
    ],
)
async def test_ends(ending: bytes, finish: str) -> None:
    async with playing(Act([*responses_reply("x")[:-1], ending])) as wire:
        assert (await reply(RESPONSES.open(wire))).finish == finish


async def test_a_thought_without_encrypted_content_is_dropped() -> None:
    bare = {"id": "rs_1", "type": "reasoning", "summary": []}
    done = responses_event("response.output_item.done", output_index=0, item=bare)
    async with playing(Act([done, *responses_reply("x", [("call_1", "bash", "{}")])])) as wire:
        got = await reply(RESPONSES.open(wire))
    assert (got.calls, got.opaque) == ((Call("call_1", "bash", "{}"),), {})


@pytest.mark.parametrize(
    ("code", "message", "error", "asked"),
    [
        ("server_error", "It broke.", Unavailable, 3),
        ("rate_limit_exceeded", "Please try again in 2ms.", Unavailable, 3),
        ("invalid_prompt", "Not this.", BadRequest, 1),
        ("context_length_exceeded", "Too long.", LimitReached, 1),
        ("insufficient_quota", "Pay.", LimitReached, 1),
    ],
)
async def test_a_response_that_fails(code: str, message: str, error: type[HutchError], asked: int) -> None:
    whole = responses_whole("failed", error={"code": code, "message": message}, usage=None)
    failed = Act([responses_reply("x")[0], responses_event("response.failed", response=whole)])
    async with playing(failed, failed, failed) as wire:
        with pytest.raises(error, match=message):
            await pieces(RESPONSES.open(wire))
    assert len(wire.bodies) == asked
