"""The model endpoint: the official client libraries use it, and attacks from its jail fail."""

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import anthropic
import openai
import pytest

from hutch.agent.external_agents.model_endpoint import MAX_BODY_BYTES, MAX_VALUES, ModelEndpoint
from hutch.domain.errors import Denied, LimitReached
from hutch.domain.redaction import Redactor
from hutch.jail.interface import Jail
from hutch.llm.interface import (
    Again,
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
    Usage,
)
from hutch.llm.reply_builder import Reply, ReplyBuilder
from tests.deadline import DEADLINE_S

pytestmark = pytest.mark.anyio
TOKEN, SECRET = "the-token-of-this-run", "sk-upstream-key-that-must-not-leave"
ANSWER: tuple[Delta, ...] = (
    Thinking("hm"),
    Text("I look"),
    Text(" at it."),
    CallStarted("c1", "read"),
    CallArguments("c1", '{"path": '),
    CallArguments("c1", '"a.py"}'),
    CallEnded("c1"),
    Usage(input=30, cached=10, output=5),
    Finish("calls"),
)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}}
HISTORY = (
    FromUser("Mend it"),
    FromModel("I look.", (Call("c0", "read", '{"path": "a.py"}'),), {"thought": "signed"}),
    FromTool("c0", "read", "old text"),
    FromUser("Go on"),
)


class LocalJail:
    """The one method of a jail that the endpoint uses, in the network of this machine."""

    async def listen(self, port: int = 0, *, host: str = "127.0.0.1") -> socket.socket:
        listener = socket.create_server((host, port))
        listener.setblocking(False)
        return listener


class PlayedModel:
    """A model that plays deltas, or raises, and keeps the requests."""

    def __init__(self, *deltas: Delta, error: Exception | None = None) -> None:
        self.deltas, self.error = deltas or ANSWER, error
        self.requests: list[Request] = []
        self.ended = asyncio.Event()

    async def ask(self, request: Request) -> AsyncGenerator[Delta | Reply]:
        self.requests.append(request)
        builder = ReplyBuilder()
        try:
            for delta in self.deltas:
                builder.add(delta)
                yield delta
            if self.error:
                raise self.error
            yield builder.reply()
        finally:
            self.ended.set()


@asynccontextmanager
async def endpoint(model: PlayedModel) -> AsyncIterator[str]:
    def opaque(text: str, calls: tuple[Call, ...]) -> dict[str, Any]:
        return {"thought": "signed"} if [call.id for call in calls] == ["c0"] else {}

    served = ModelEndpoint(model.ask, TOKEN, opaque, Redactor([SECRET]).redact)
    async with served.serve(cast(Jail, LocalJail())) as port:
        yield f"http://127.0.0.1:{port}"


async def send(address: str, raw: bytes) -> tuple[int, bytes]:
    """Status and body of the response to raw bytes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    writer.write(raw)
    async with asyncio.timeout(DEADLINE_S):
        answer = await reader.read()
    writer.close()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else 0, body


def post(path: str, body: bytes, *, token: str = TOKEN, more: str = "") -> bytes:
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


HELLO = json.dumps({"messages": [{"role": "user", "content": "Hello"}]}).encode()


async def test_the_openai_library_uses_chat_completions() -> None:
    model = PlayedModel()
    function = {"name": "read", "arguments": '{"path": "a.py"}'}
    messages: Any = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Mend it"}]},
        {
            "role": "assistant",
            "content": "I look.",
            "tool_calls": [{"id": "c0", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "c0", "content": "old text"},
        {"role": "user", "content": "Go on"},
    ]
    tools: Any = [{"type": "function", "function": {"name": "read", "parameters": SCHEMA}}]
    async with (
        endpoint(model) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        assert [each.id async for each in client.models.list()] == ["hutch"]
        whole = await client.chat.completions.create(model="any", messages=messages, tools=tools)
        chunks = [
            chunk
            async for chunk in await client.chat.completions.create(
                model="any",
                messages=messages,
                tools=tools,
                stream=True,
                stream_options={"include_usage": True},
            )
        ]
    first, second = model.requests
    assert (first.system, first.messages, first.tools[0].name) == ("Be brief.", HISTORY, "read")
    assert cast(FromModel, second.messages[1]).opaque == {"thought": "signed"}
    choice = whole.choices[0]
    assert (choice.message.content, choice.finish_reason) == ("I look at it.", "tool_calls")
    assert whole.usage is not None and whole.usage.total_tokens == 35
    text = "".join(each.choices[0].delta.content or "" for each in chunks if each.choices)
    parts = [part for each in chunks if each.choices for part in each.choices[0].delta.tool_calls or ()]
    arguments = "".join(part.function.arguments or "" for part in parts if part.function)
    assert (text, parts[0].id, json.loads(arguments)) == ("I look at it.", "c1", {"path": "a.py"})
    assert chunks[-1].usage is not None and chunks[-1].usage.prompt_tokens == 30


async def test_the_openai_library_uses_responses() -> None:
    model = PlayedModel()
    items: Any = [
        {"role": "user", "content": "Mend it"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c0", "name": "read", "arguments": '{"path": "a.py"}'},
        {"type": "function_call_output", "call_id": "c0", "output": "old text"},
        {"role": "user", "content": [{"type": "input_text", "text": "Go on"}]},
    ]
    tools: Any = [
        {"type": "function", "name": "read", "parameters": SCHEMA, "strict": False},
        {"type": "custom", "name": "apply_patch", "description": "Patch."},
    ]
    async with (
        endpoint(model) as address,
        openai.AsyncOpenAI(base_url=f"{address}/v1", api_key=TOKEN, max_retries=0) as client,
    ):
        whole = await client.responses.create(model="any", input=items, instructions="Be brief.", tools=tools)
        async with client.responses.stream(model="any", input=items, tools=tools) as stream:
            kinds = [each.type async for each in stream]
            final = await stream.get_final_response()
    first = model.requests[0]
    assert (first.system, first.messages) == ("Be brief.", HISTORY)
    assert [each.name for each in first.tools] == ["read", "apply_patch"]
    assert (whole.output_text, final.output_text) == ("I look at it.", "I look at it.")
    assert [each.type for each in final.output] == ["message", "function_call"]
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"
    assert "response.output_text.delta" in kinds and "response.function_call_arguments.done" in kinds


async def test_the_anthropic_library_uses_messages() -> None:
    model = PlayedModel()
    messages: Any = [
        {"role": "user", "content": "Mend it"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look."},
                {"type": "tool_use", "id": "c0", "name": "read", "input": {"path": "a.py"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c0", "content": "old text"},
                {"type": "text", "text": "Go on"},
            ],
        },
    ]
    asking: Any = {"model": "any", "max_tokens": 100, "system": "Be brief.", "messages": messages}
    asking["tools"] = [{"name": "read", "input_schema": SCHEMA}]
    async with (
        endpoint(model) as address,
        anthropic.AsyncAnthropic(base_url=address, api_key=TOKEN, max_retries=0) as client,
    ):
        whole = await client.messages.create(**asking)
        async with client.messages.stream(**asking) as stream:
            final = await stream.get_final_message()
        counted = await client.messages.count_tokens(model="any", messages=messages)
    assert (model.requests[0].system, model.requests[0].messages) == ("Be brief.", HISTORY)
    for message in (whole, final):
        text, use = message.content
        assert (text.type, use.type, message.stop_reason) == ("text", "tool_use", "tool_use")
        assert use.type == "tool_use" and use.input == {"path": "a.py"}
        assert (message.usage.input_tokens, message.usage.cache_read_input_tokens) == (20, 10)
    assert counted.input_tokens > 0


async def test_a_free_text_tool_gets_its_text_back() -> None:
    model = PlayedModel(
        CallStarted("c1", "apply_patch"),
        CallArguments("c1", json.dumps({"input": "*** Begin"})),
        CallEnded("c1"),
        Finish("calls"),
    )
    body = {"input": "Mend it", "tools": [{"type": "custom", "name": "apply_patch"}]}
    async with endpoint(model) as address:
        _, answer = await send(address, post("/v1/responses", json.dumps(body).encode()))
    (item,) = json.loads(answer)["output"]
    assert (item["type"], item["input"]) == ("custom_tool_call", "*** Begin")


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (post("/v1/chat/completions", HELLO, token="the-token-of-another"), 401),
        (post("/v1/chat/completions", HELLO, token=""), 401),
        (post("/api/v1/sessions", HELLO), 404),
        (post("/v1/../api/v1/users", HELLO), 404),
        (post("http://127.0.0.1:8484/api/v1/sessions", HELLO), 404),
        (b"GET /api/v1/users HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + TOKEN.encode() + b"\r\n\r\n", 404),
        (
            b"CONNECT 169.254.169.254:80 HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + TOKEN.encode() + b"\r\n\r\n",
            404,
        ),
        (b"HEAD / HTTP/1.1\r\nHost: x\r\nX-Api-Key: " + TOKEN.encode() + b"\r\n\r\n", 404),
        (post("/v1/messages", b"[" * 200_000), 400),
        (post("/v1/messages", b"not JSON"), 400),
        (post("/v1/messages", b'{"messages": 3}'), 400),
        (post("/v1/messages", b'{"messages": [{"role": "user", "content": [7]}]}'), 400),
        (post("/v1/chat/completions", b'{"messages": [{"role": "tool", "tool_call_id": "x"}]}'), 400),
        (post("/v1/messages", HELLO, more="Transfer-Encoding: chunked\r\n"), 400),
        (post("/v1/messages", HELLO, more="Content-Length: 5\r\n"), 400),
        (post("/v1/messages", HELLO, more=f"X: {'y' * 200_000}\r\n"), 400),
        (b"nonsense\r\n\r\n", 400),
    ],
)
async def test_an_attack_gets_an_error_and_reaches_no_model(raw: bytes, status: int) -> None:
    model = PlayedModel()
    async with endpoint(model) as address:
        found, body = await send(address, raw)
    assert (found, model.requests) == (status, []), body


async def test_only_one_request_is_read_from_a_connection() -> None:
    model = PlayedModel()
    smuggled = post("/v1/chat/completions", HELLO) + post("/v1/chat/completions", HELLO)
    async with endpoint(model) as address:
        await send(address, smuggled)
    assert len(model.requests) <= 1


async def test_a_body_over_the_maximum_is_refused() -> None:
    model = PlayedModel()
    async with endpoint(model) as address:
        status, _ = await send(address, post("/v1/messages", b"x" * (MAX_BODY_BYTES + 65_536)))
    assert (status, model.requests) == (413, [])


@pytest.mark.parametrize("streams", [False, True])
async def test_an_error_of_the_provider_names_no_key(streams: bool) -> None:
    model = PlayedModel(Text("so far"), error=Denied(f"The key {SECRET} was rejected."))
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": streams}).encode()
    async with endpoint(model) as address:
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/responses"):
            given = body.replace(b'"messages"', b'"input"') if path == "/v1/responses" else body
            status, answer = await send(address, post(path, given))
            assert status == (200 if streams else 502) and b"was rejected" in answer
            assert SECRET.encode() not in answer


async def test_a_limit_of_the_run_is_too_many_requests() -> None:
    model = PlayedModel(
        Thinking("hm"), error=LimitReached("It took 3 turns, which is the limit.", limit="run")
    )
    async with endpoint(model) as address:
        assert (await send(address, post("/v1/chat/completions", HELLO)))[0] == 429


async def test_a_reply_that_begins_anew_is_not_mixed_with_its_first_part() -> None:
    again = (Text("half"), Again(2, 0.0, "it broke off"), Text("whole"), Finish("stop"))
    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": True}).encode()
    async with endpoint(PlayedModel(*again)) as address:
        _, streamed = await send(address, post("/v1/chat/completions", body))
        _, whole = await send(address, post("/v1/chat/completions", HELLO))
    assert b"half" in streamed and b"whole" not in streamed and b"broke off" in streamed
    assert json.loads(whole)["choices"][0]["message"]["content"] == "whole"


async def test_a_program_that_leaves_ends_its_request() -> None:
    class Endless(PlayedModel):
        async def ask(self, request: Request) -> AsyncGenerator[Delta | Reply]:
            try:
                yield Text("first")
                await asyncio.Event().wait()
            finally:
                self.ended.set()

    model = Endless()
    async with endpoint(model) as address:
        _, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
        writer.write(post("/v1/chat/completions", HELLO))
        await writer.drain()
        await asyncio.sleep(0)
        writer.close()
        async with asyncio.timeout(DEADLINE_S):
            await model.ended.wait()


async def test_a_slow_reader_makes_the_model_wait() -> None:
    sent: list[int] = []

    class Flood(PlayedModel):
        async def ask(self, request: Request) -> AsyncGenerator[Delta | Reply]:
            for number in range(2_000):
                sent.append(number)
                yield Text("x" * 32_768)

    body = json.dumps({"messages": [{"role": "user", "content": "Hello"}], "stream": True}).encode()
    async with endpoint(Flood()) as address:
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(address.rpartition(":")[2]), limit=1024
        )
        writer.write(post("/v1/chat/completions", body))
        await reader.read(100)
        await _settled(lambda: len(sent))
        assert len(sent) < 1_000  # of 64 MB, only the buffers of the sockets are filled
        writer.close()


async def _settled(count: Callable[[], int]) -> None:
    before = -1
    while before != count():
        before = count()
        await asyncio.sleep(0.2)


async def test_known_secrets_in_a_request_do_not_reach_the_provider() -> None:
    model = PlayedModel()
    body = {
        "system": f"The key is {SECRET}.",
        "messages": [
            {"role": "user", "content": f"Use {SECRET}"},
            {
                "role": "assistant",
                "content": [{"type": "tool_use", "id": SECRET, "name": SECRET, "input": {}}],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": SECRET, "content": SECRET}]},
        ],
        "tools": [
            {
                "name": SECRET,
                "description": SECRET,
                "input_schema": {"properties": {SECRET: {"enum": [SECRET]}}},
            }
        ],
    }
    async with endpoint(model) as address:
        await send(address, post("/v1/messages", json.dumps(body).encode()))
    assert SECRET not in repr(model.requests[0])


async def test_json_that_would_fill_the_memory_is_refused() -> None:
    model = PlayedModel()
    body = b'{"messages":[' + b"[]," * MAX_VALUES + b"[]]}"
    async with endpoint(model) as address:
        status, answer = await send(address, post("/v1/chat/completions", body))
    assert status == 400 and b"at most 1,000,000 values" in answer


async def test_the_endpoint_ends_with_its_run() -> None:
    async with endpoint(PlayedModel()) as address:
        assert (await send(address, post("/v1/chat/completions", HELLO)))[0] == 200
    with pytest.raises(OSError):
        await send(address, post("/v1/chat/completions", HELLO))
