"""Anthropic's models, through its own client library."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import anthropic

from hutch.llm.faults import Transient
from hutch.llm.provider import Account, json_object, translated
from hutch.llm.seam import (
    Call,
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    FinishReason,
    FromModel,
    FromTool,
    FromUser,
    Message,
    Request,
    Text,
    Thinking,
    Usage,
)

FINISHES: dict[str | None, FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
CACHE = {"cache_control": {"type": "ephemeral"}}
# Anthropic looks back twenty blocks for what it has cached; two marks on the way keep long turns in reach.
MARKED_MESSAGES = 2


class AnthropicModel:
    """See `seam.Model`."""

    context_tokens: int | None = 200_000

    def __init__(self, account: Account) -> None:
        self.name = account.full_name
        self._account = account
        self._client = anthropic.AsyncAnthropic(
            api_key=account.key,
            base_url=account.base_url,
            max_retries=0,
            timeout=account.timeout_s,
        )

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        async with translated(self._account, anthropic.APIError):
            reply = await self._client.messages.create(**self._body(request), stream=True)
            async with reply:
                async for piece in _pieces(reply):
                    yield piece

    async def close(self) -> None:
        await self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "max_tokens": request.most_tokens,
            "messages": _messages(request.messages),
        }
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, **CACHE}]
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body


def _messages(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """Neighbours of one role become one message, as the service wants it."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, FromModel) else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in [turn for turn in turns if turn["role"] == "user"][-MARKED_MESSAGES:]:
        turn["content"][-1] = {**turn["content"][-1], **CACHE}
    return turns


def _blocks(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case FromUser():
            yield {"type": "text", "text": message.text or "(empty)"}
        case FromTool():
            yield {
                "type": "tool_result",
                "tool_use_id": message.call_id,
                "content": message.text or "(empty)",
                "is_error": not message.ok,
            }
        case FromModel():
            yield from message.opaque.get("anthropic", {}).get("thinking", ())
            if message.text:
                yield {"type": "text", "text": message.text}
            for call in message.calls:
                yield {"type": "tool_use", "id": call.id, "name": call.tool, "input": json_object(call)}


async def _pieces(reply: "anthropic.AsyncStream[Any]") -> AsyncGenerator[Delta]:
    calls: dict[int, Call] = {}
    thoughts: dict[int, dict[str, Any]] = {}
    usage, reason, ended = Usage(), None, False
    async for event in reply:
        match event.type:
            case "message_start":
                usage = _usage(event.message.usage, usage)
            case "content_block_start":
                block = event.content_block
                match block.type:
                    case "tool_use":
                        calls[event.index] = Call(block.id, block.name, "")
                        yield CallStarted(block.id, block.name)
                    case "thinking" | "redacted_thinking":
                        thoughts[event.index] = block.model_dump(exclude_none=True)
            case "content_block_delta":
                delta = event.delta
                match delta.type:
                    case "text_delta":
                        yield Text(delta.text)
                    case "input_json_delta" if event.index in calls:
                        yield CallArguments(calls[event.index].id, delta.partial_json)
                    case "thinking_delta":
                        thoughts[event.index]["thinking"] = (
                            thoughts[event.index].get("thinking", "") + delta.thinking
                        )
                        yield Thinking(delta.thinking)
                    case "signature_delta":
                        thoughts[event.index]["signature"] = delta.signature
            case "content_block_stop":
                if event.index in calls:
                    yield CallEnded(calls[event.index].id)
            case "message_delta":
                usage, reason = _usage(event.usage, usage), event.delta.stop_reason
            case "message_stop":
                ended = True
    if not ended:
        raise Transient("the stream ended in the middle of a reply")
    yield usage
    opaque = {"anthropic": {"thinking": list(thoughts.values())}} if thoughts else {}
    yield Finish(FINISHES.get(reason, "other"), opaque)


def _usage(told: Any, before: Usage) -> Usage:
    """What the service tells is a total each time; the cached parts are not in its `input_tokens`."""
    if told.input_tokens is None:
        return Usage(before.input, before.cached, before.cache_written, told.output_tokens or before.output)
    cached, written = told.cache_read_input_tokens or 0, told.cache_creation_input_tokens or 0
    return Usage(told.input_tokens + cached + written, cached, written, told.output_tokens or 0)
