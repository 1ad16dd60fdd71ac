"""OpenAI's chat protocol against servers that follow it more or less exactly."""

import pytest

from hutch.domain.errors import NotFound
from hutch.llm.interface import (
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
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
from hutch.llm.model_and_key_names import parse_model_name
from hutch.llm.model_factory import Access, open_model
from tests.llm.provider_formats import CHAT, KEY, OLLAMA, as_message, chat_call, chat_chunk, pieces, reply
from tests.llm.provider_server import Act, answer, event, playing

pytestmark = pytest.mark.anyio

SCHEMA = {"type": "object", "properties": {"command": {"type": "string"}}}
BASH = ToolSpec("bash", "Run a command.", SCHEMA)
END = [
    chat_chunk({}, "tool_calls"),
    chat_chunk(
        None,
        usage={
            "prompt_tokens": 1000,
            "completion_tokens": 40,
            "total_tokens": 1040,
            "prompt_tokens_details": {"cached_tokens": 800, "audio_tokens": 0},
            "completion_tokens_details": {"reasoning_tokens": 10},
        },
    ),
    event("[DONE]"),
]
CALLS = [
    chat_chunk({"role": "assistant", "content": "", "refusal": None}),
    chat_chunk({"content": "I will "}),
    chat_chunk({"content": "look."}),
    chat_chunk({"tool_calls": [chat_call(0, "call_a", "bash", "")]}),
    chat_chunk({"tool_calls": [chat_call(0, None, None, '{"command": ')]}),
    chat_chunk({"tool_calls": [chat_call(0, None, None, '"ls"}')]}),
    chat_chunk({"tool_calls": [chat_call(1, "call_b", "bash", "")]}),
    chat_chunk({"tool_calls": [chat_call(1, None, None, "{}")]}),
    *END,
]


async def test_a_reply_is_streamed() -> None:
    async with playing(Act(CALLS)) as wire:
        got = await pieces(CHAT.open(wire))
    assert got == [
        Text("I will "),
        Text("look."),
        CallStarted("call_a", "bash"),
        CallArguments("call_a", '{"command": '),
        CallArguments("call_a", '"ls"}'),
        CallStarted("call_b", "bash"),
        CallArguments("call_b", "{}"),
        Usage(input=1000, cached=800, output=40),
        CallEnded("call_a"),
        CallEnded("call_b"),
        Finish("calls"),
    ]


async def test_the_first_request() -> None:
    async with playing(Act(CALLS)) as wire:
        request = Request("Be good.", (FromUser("go"),), (BASH,), max_tokens=99, temperature=0.5)
        await pieces(CHAT.open(wire), request)
    [asked] = wire.requests
    assert (asked.method, asked.path) == ("POST", "/v1/chat/completions")
    assert asked.headers["authorization"] == f"Bearer {KEY}"
    assert asked.body == {
        "model": "gpt-test",
        "max_completion_tokens": 99,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
        "messages": [{"role": "system", "content": "Be good."}, {"role": "user", "content": "go"}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "Run a command.", "parameters": SCHEMA},
            }
        ],
    }


async def test_replies_are_sent_back() -> None:
    async with playing(Act(CALLS), Act(CHAT.reply("Done.", ()))) as wire:
        first = await reply(CHAT.open(wire))
        messages = (
            FromUser("go"),
            as_message(first),
            FromTool("call_a", "bash", "a.py"),
            FromTool("call_b", "bash", "no command", ok=False),
            FromModel("", (Call("call_c", "bash", "{oops"),)),
            FromTool("call_c", "bash", "bad", ok=False),
            FromModel(),
            FromUser("and now?"),
        )
        await reply(CHAT.open(wire), Request("", messages))

    def call(id_: str, arguments: str) -> dict[str, object]:
        return {"id": id_, "type": "function", "function": {"name": "bash", "arguments": arguments}}

    assert wire.bodies[1]["messages"] == [
        {"role": "user", "content": "go"},
        {
            "role": "assistant",
            "content": "I will look.",
            "tool_calls": [call("call_a", '{"command": "ls"}'), call("call_b", "{}")],
        },
        {"role": "tool", "tool_call_id": "call_a", "content": "a.py"},
        {"role": "tool", "tool_call_id": "call_b", "content": "Error: no command"},
        {"role": "assistant", "content": None, "tool_calls": [call("call_c", '{"invalid": "{oops"}')]},
        {"role": "tool", "tool_call_id": "call_c", "content": "Error: bad"},
        {"role": "user", "content": "and now?"},
    ]


LS, PWD = '{"command": "ls"}', '{"command": "pwd"}'


@pytest.mark.parametrize(
    ("parts", "ids"),
    [
        pytest.param(
            [chat_call(0, "call_x", "bash", LS), chat_call(0, "call_y", "bash", PWD)],
            ("call_x", "call_y"),
            id="index always 0",
        ),
        pytest.param(
            [chat_call(0, None, "bash", LS), chat_call(0, None, "bash", PWD)],
            ("call_0", "call_1"),
            id="no ids and index always 0",
        ),
        pytest.param(
            [chat_call(0, "", "bash", LS), chat_call(1, "", "bash", PWD)],
            ("call_0", "call_1"),
            id="empty ids",
        ),
        pytest.param(
            [chat_call(None, None, "bash", LS), chat_call(None, None, "bash", PWD)],
            ("call_0", "call_1"),
            id="no index",
        ),
        pytest.param(
            [chat_call(0, "same", "bash", LS), chat_call(0, "same", "bash", PWD)],
            ("same", "same_1"),
            id="the same id and index",
        ),
        pytest.param(
            [
                chat_call(0, "a", "bash", LS[:9]),
                chat_call(0, "a", "bash", LS[9:]),
                chat_call(0, "a", "bash", ""),
                chat_call(1, "b", "bash", PWD),
            ],
            ("a", "b"),
            id="id and name in every piece",
        ),
    ],
)
async def test_servers_that_number_calls_differently(
    parts: list[dict[str, object]], ids: tuple[str, str]
) -> None:
    chunks = [*(chat_chunk({"tool_calls": [part]}) for part in parts), chat_chunk({}, "stop")]
    async with playing(Act(chunks)) as wire:
        got = await reply(OLLAMA.open(wire))
    assert (got.calls, got.finish) == ((Call(ids[0], "bash", LS), Call(ids[1], "bash", PWD)), "calls")


async def test_arguments_as_json_instead_of_text() -> None:
    part = {"index": 0, "id": "a", "function": {"name": "bash", "arguments": {"command": "ls"}}}
    async with playing(Act([chat_chunk({"tool_calls": [part]}), chat_chunk({}, "stop")])) as wire:
        assert (await reply(OLLAMA.open(wire))).calls == (Call("a", "bash", LS),)


async def test_an_id_is_used_once_in_a_conversation() -> None:
    chunks = [chat_chunk({"tool_calls": [chat_call(0, "call_0", "bash", LS)]}), chat_chunk({}, "tool_calls")]
    before = FromModel("", (Call("call_0", "bash", "{}"),))
    messages = (FromUser("go"), before, FromTool("call_0", "bash", ""))
    async with playing(Act(chunks)) as wire:
        got = await reply(OLLAMA.open(wire), Request("", messages))
    assert got.calls == (Call("call_0_1", "bash", LS),)


@pytest.mark.parametrize(
    ("delta", "finish", "expected"),
    [
        ({"reasoning_content": "hm"}, "stop", [Thinking("hm"), Text("x"), Finish("stop")]),
        ({"reasoning": "hm"}, "length", [Thinking("hm"), Text("x"), Finish("length")]),
        ({"refusal": "no"}, "stop", [Text("no"), Text("x"), Finish("refused")]),
        ({}, "content_filter", [Text("x"), Finish("refused")]),
        ({}, "new_reason", [Text("x"), Finish("other")]),
    ],
)
async def test_thoughts_and_ends(delta: dict[str, str], finish: str, expected: list[Delta]) -> None:
    async with playing(
        Act([chat_chunk(delta), chat_chunk({"content": "x"}), chat_chunk({}, finish)])
    ) as wire:
        assert await pieces(OLLAMA.open(wire)) == expected


async def test_only_openai_gets_its_account_headers() -> None:
    of_openai = {"openai": {"OpenAI-Organization": "org-mine", "OpenAI-Project": "proj-mine"}}
    for name, mine in (("openai:x", ["org-mine", "proj-mine"]), ("ollama:x", [])):
        async with playing(Act(CHAT.reply("x", ()))) as wire:
            urls = {"openai": f"{wire.url}/v1", "ollama": wire.url}
            keys = {"openai_api_key": KEY}
            access = Access(keys=keys, base_urls=urls, headers=of_openai, openai_protocol="chat")
            await pieces(open_model(parse_model_name(name), access))
        assert [value for value in wire.requests[0].headers.values() if "mine" in value] == mine


async def test_a_model_that_ollama_does_not_have() -> None:
    unknown = answer(404, {"error": {"message": "model 'qwen-test' not found", "type": "api_error"}})
    async with playing(unknown, lists=OLLAMA.lists(["qwen-tester:4b"])) as wire:
        with pytest.raises(
            NotFound, match=r"It has qwen-tester:4b\. Download it with `ollama pull qwen-test`"
        ):
            await pieces(OLLAMA.open(wire))


async def test_a_self_hosted_server_by_its_address_without_a_key() -> None:
    name = parse_model_name("openai-compatible:my/model")
    async with playing(Act(CHAT.reply("Done.", ())), answer(404, b"<html>nothing</html>")) as wire:
        access = Access(base_urls={"openai-compatible": f"{wire.url}/v1"})
        assert (await reply(open_model(name, access))).text == "Done."
        assert wire.bodies[0]["model"] == "my/model"
        with pytest.raises(NotFound, match=r"check models\.openai_compatible_base_url, which is http"):
            await pieces(open_model(name, access))


async def test_token_counts_that_are_not_numbers_are_ignored() -> None:
    details = {"cached_tokens": 3}
    usage = {"prompt_tokens": "many", "completion_tokens": {"a": 1}, "prompt_tokens_details": details}
    content = [chat_chunk({"content": "Hi"}), chat_chunk({}, "stop")]
    chunks = [*content, chat_chunk(None, usage=usage), event("[DONE]")]
    async with playing(Act(chunks)) as wire:
        assert (await reply(CHAT.open(wire))).usage == Usage(cached=3)
