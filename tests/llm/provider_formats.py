"""The wire format of each provider, so that one test can run with all of them."""

import json
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from hutch.llm.interface import Delta, FromModel, FromUser, Model, Request
from hutch.llm.model_and_key_names import key_name, parse_model_name
from hutch.llm.model_factory import Access, open_model
from hutch.llm.reply_builder import Reply, ReplyBuilder
from hutch.llm.retry import RetryPolicy
from tests.llm.provider_server import Wire, event

KEY = "key-of-a-test-1234567890"
QUICK = RetryPolicy(attempts=3, first_wait_s=0.001, max_wait_s=30.0, idle_timeout_s=30.0)
GO = Request("You help.", (FromUser("go"),))

Calls = Sequence[tuple[str, str, str]]  # id, tool, arguments


@dataclass(frozen=True)
class Dialect:
    """The wire format of one provider. `reply` may stop before the end of the last call."""

    provider: str
    model: str
    path: str  # of the base URL
    reply: Callable[[str, Calls], list[bytes]]
    error: Callable[[int, str, str], Any]  # the body of an error: status, kind, message
    overloaded: Callable[[], bytes]  # trouble inside a stream
    lists: Callable[[Sequence[str]], dict[str, object]]
    before_end: int = 2  # events that end a reply
    protocol: str = "responses"

    def open(self, wire: Wire | None = None, url: str = "", retry_policy: RetryPolicy = QUICK) -> Model:
        base = f"{wire.url if wire else url}{self.path}"
        access = Access(
            keys={key_name(self.provider): KEY},
            base_urls={self.provider: base},
            openai_protocol="chat" if self.protocol == "chat" else "responses",
            retry_policy=retry_policy,
        )
        return open_model(parse_model_name(f"{self.provider}:{self.model}"), access)

    def __str__(self) -> str:
        return f"{self.provider}-{self.protocol}" if self.provider == "openai" else self.provider


async def pieces(model: Model, request: Request = GO) -> list[Delta]:
    try:
        async with aclosing(model.stream(request)) as stream:
            return [piece async for piece in stream]
    finally:
        await model.close()


async def reply(model: Model, request: Request = GO) -> Reply:
    gathering = ReplyBuilder()
    for piece in await pieces(model, request):
        gathering.add(piece)
    return gathering.reply()


def as_message(reply: Reply) -> FromModel:
    return FromModel(reply.text, reply.calls, reply.opaque)


# Anthropic


def anthropic_event(kind: str, **data: object) -> bytes:
    return event({"type": kind, **data}, kind)


def anthropic_reply(text: str, calls: Calls = ()) -> list[bytes]:
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-test",
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    parts = [anthropic_event("message_start", message=message), anthropic_event("ping")]
    blocks: list[tuple[dict[str, Any], dict[str, Any]]] = []
    if text:
        blocks.append(({"type": "text", "text": ""}, {"type": "text_delta", "text": text}))
    for id_, tool, arguments in calls:
        begun = {"type": "tool_use", "id": id_, "name": tool, "input": {}}
        blocks.append((begun, {"type": "input_json_delta", "partial_json": arguments}))
    for index, (begun, delta) in enumerate(blocks):
        parts.append(anthropic_event("content_block_start", index=index, content_block=begun))
        parts.append(anthropic_event("content_block_delta", index=index, delta=delta))
        parts.append(anthropic_event("content_block_stop", index=index))
    reason = "tool_use" if calls else "end_turn"
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        *parts,
        anthropic_event("message_delta", delta=delta, usage={"output_tokens": 5}),
        anthropic_event("message_stop"),
    ]


def anthropic_error(status: int, kind: str, message: str) -> Any:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


# OpenAI chat


def chat_chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    choices = [] if delta is None else [{"index": 0, "delta": delta, "finish_reason": finish}]
    return event(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": choices,
            **more,
        }
    )


def chat_call(index: int | None, id_: str | None, tool: str | None, arguments: str | None) -> dict[str, Any]:
    function = {key: value for key, value in (("name", tool), ("arguments", arguments)) if value is not None}
    result: dict[str, Any] = {"type": "function", "function": function}
    if index is not None:
        result["index"] = index
    return result | ({"id": id_} if id_ is not None else {})


def chat_reply(text: str, calls: Calls = ()) -> list[bytes]:
    parts = [chat_chunk({"role": "assistant", "content": ""})]
    if text:
        parts.append(chat_chunk({"content": text}))
    for place, (id_, tool, arguments) in enumerate(calls):
        parts.append(chat_chunk({"tool_calls": [chat_call(place, id_, tool, "")]}))
        parts.append(chat_chunk({"tool_calls": [chat_call(place, None, None, arguments)]}))
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return [
        *parts,
        chat_chunk({}, "tool_calls" if calls else "stop"),
        chat_chunk(None, usage=usage),
        event("[DONE]"),
    ]


def openai_error(status: int, kind: str, message: str) -> Any:
    return {"error": {"message": message, "type": kind, "param": None, "code": kind}}


# OpenAI Responses


def responses_event(kind: str, number: int = 0, **data: object) -> bytes:
    return event({"type": kind, "sequence_number": number, **data}, kind)


def responses_whole(status: str = "completed", **more: Any) -> dict[str, Any]:
    usage = {
        "input_tokens": 10,
        "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2},
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": 15,
    }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": [],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "status": status,
        "error": None,
        "incomplete_details": None,
        "usage": usage,
    } | more


def responses_reply(text: str, calls: Calls = ()) -> list[bytes]:
    parts = [responses_event("response.created", response=responses_whole("in_progress", usage=None))]
    index = 0
    if text:
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress", "content": []}
        at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
        parts.append(responses_event("response.output_item.added", output_index=0, item=item))
        parts.append(responses_event("response.output_text.delta", **at, delta=text, logprobs=[]))
        parts.append(
            responses_event("response.output_item.done", output_index=0, item={**item, "status": "completed"})
        )
        index = 1
    for place, (id_, tool, arguments) in enumerate(calls, start=index):
        item = {"id": f"fc_{place}", "type": "function_call", "call_id": id_, "name": tool, "arguments": ""}
        at = {"item_id": f"fc_{place}", "output_index": place}
        parts.append(responses_event("response.output_item.added", output_index=place, item=item))
        parts.append(responses_event("response.function_call_arguments.delta", **at, delta=arguments))
        whole = {**item, "arguments": arguments}
        parts.append(responses_event("response.output_item.done", output_index=place, item=whole))
    return [*parts, responses_event("response.completed", response=responses_whole())]


# Gemini


def gemini_chunk(parts: Sequence[dict[str, Any]], finish: str | None = None, **usage: int) -> bytes:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    chunk: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-test", "responseId": "r"}
    return event(chunk | ({"usageMetadata": usage} if usage else {})).replace(b"\n\n", b"\r\n\r\n")


def gemini_reply(text: str, calls: Calls = ()) -> list[bytes]:
    parts = [gemini_chunk([{"text": text}], promptTokenCount=10)] if text else []
    for id_, tool, arguments in calls:
        call = {"id": id_, "name": tool, "args": json.loads(arguments)}
        parts.append(gemini_chunk([{"functionCall": call}]))
    return [*parts, gemini_chunk([], "STOP", promptTokenCount=10, candidatesTokenCount=5)]


def gemini_error(status: int, kind: str, message: str) -> Any:
    return {"error": {"code": status, "message": message, "status": kind}}


def ids(prefix: str, path: str) -> Callable[[Sequence[str]], dict[str, object]]:
    return lambda names: {path: {"object": "list", "data": [{"id": f"{prefix}{name}"} for name in names]}}


ANTHROPIC = Dialect(
    "anthropic",
    "claude-test",
    "",
    anthropic_reply,
    anthropic_error,
    lambda: event(anthropic_error(529, "overloaded_error", "Overloaded"), "error"),
    lambda names: {
        "/v1/models": {
            "data": [{"id": name, "type": "model"} for name in names],
            "has_more": False,
            "first_id": None,
            "last_id": None,
        }
    },
    before_end=3,
)
CHAT = Dialect(
    "openai",
    "gpt-test",
    "/v1",
    chat_reply,
    openai_error,
    lambda: event({"error": {"message": "Overloaded", "type": "server_error", "code": None}}),
    ids("", "/v1/models"),
    before_end=3,
    protocol="chat",
)
RESPONSES = Dialect(
    "openai",
    "gpt-test",
    "/v1",
    responses_reply,
    openai_error,
    lambda: responses_event("error", code="server_error", message="Overloaded", param=None),
    ids("", "/v1/models"),
)
GEMINI = Dialect(
    "gemini",
    "gemini-test",
    "",
    gemini_reply,
    gemini_error,
    lambda: event(gemini_error(503, "UNAVAILABLE", "Overloaded")),
    lambda names: {"/v1beta/models": {"models": [{"name": f"models/{name}"} for name in names]}},
    before_end=1,
)
OLLAMA = Dialect(
    "ollama",
    "qwen-test",
    "",
    chat_reply,
    openai_error,
    lambda: event({"error": {"message": "Overloaded", "type": "api_error", "code": None}}),
    ids("", "/v1/models"),
    before_end=3,
)
DIALECTS = (ANTHROPIC, CHAT, RESPONSES, GEMINI, OLLAMA)
