"""Anthropic's models, over its Messages API."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from hutch.llm import interface
from hutch.llm.http_model import HttpModel
from hutch.llm.json_fields import count, fields
from hutch.llm.reply_normalization import CallIds, Meter, json_object
from hutch.llm.reply_part_order import Order, OrderedCall, TextPart, Thought, in_order
from hutch.llm.transient_error_type import Transient

FINISHES: dict[str | None, interface.FinishReason] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refused",
}
VERSION = "2026-10-21"  # of the API
CACHE = {"cache_control": {"type": "ephemeral"}}
# Anthropic searches the last twenty blocks for a cached prefix; two marks keep long turns within that range.
MARKED_MESSAGES = 2
NOTHING = "(empty)"  # the API refuses blank texts


class AnthropicModel(HttpModel):
    context_tokens: int | None = 200_000
    path = "/v1/messages"
    models_path = "/v1/models?limit=1000"

    def _headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._account.key}", "Anthropic-Version": VERSION}

    def _body(self, request: interface.Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "max_tokens": request.max_tokens,
            "messages": _messages(request.messages),
            "stream": True,
        }
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, **CACHE}]
        if request.tools:
            body["tools"] = [
                {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature  # newer models accept none
        if request.effort is not None:
            body["thinking"] = {"type": "adaptive"}
            body["output_config"] = {"effort": request.effort}
        return body

    def _deltas(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
        return _deltas(events, ids)


def _messages(messages: tuple[interface.Message, ...]) -> list[dict[str, Any]]:
    """Merge neighbours of one role into one message, as the API requires."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "assistant" if isinstance(message, interface.FromModel) else "user"
        blocks = list(_blocks(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:
            turns.append({"role": role, "content": blocks})
    for turn in [turn for turn in turns if turn["role"] == "user"][-MARKED_MESSAGES:]:
        turn["content"][-1] = {**turn["content"][-1], **CACHE}
    return turns


def _blocks(message: interface.Message) -> Iterator[dict[str, Any]]:
    match message:
        case interface.FromUser():
            yield {"type": "text", "text": _visible(message.text)}
        case interface.FromTool():
            yield {
                "type": "tool_result",
                "tool_use_id": _id(message.call_id),
                "content": _result(message),
                "is_error": not message.ok,
            }
        case interface.FromModel():
            for part in in_order(message, "anthropic"):
                match part:
                    case Thought():
                        yield dict(part.block)
                    case TextPart() if part.text.strip():
                        yield {"type": "text", "text": part.text}
                    case OrderedCall():
                        call = part.call
                        yield {
                            "type": "tool_use",
                            "id": _id(call.id),
                            "name": call.tool,
                            "input": json_object(call),
                        }


def _result(message: interface.FromTool) -> str | list[dict[str, Any]]:
    text, image = _visible(message.text), message.image
    if image is None:
        return text
    source = {"type": "base64", "media_type": image.media_type, "data": image.data}
    return [{"type": "text", "text": text}, {"type": "image", "source": source}]


def _visible(text: str) -> str:
    return text if text.strip() else NOTHING


def _id(id_: str) -> str:
    """An id may come from another provider, which allows more characters."""
    return re.sub(r"[^A-Za-z0-9_-]", "_", id_)


async def _deltas(events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
    calls: dict[int, str] = {}
    thoughts: dict[int, dict[str, Any]] = {}
    order, meter = Order(), Meter()
    usage, reason, ended = interface.Usage(), None, False
    async for raw in events:
        event = fields(raw)
        match event.type:
            case "message_start":
                usage = _usage(event.message.usage, usage)
                if fresh := meter.read(usage):
                    yield fresh
            case "content_block_start":
                block = event.content_block
                match block.type:
                    case "tool_use":
                        calls[event.index] = ids.take(block.id)
                        order.call(calls[event.index])
                        yield interface.CallStarted(calls[event.index], block.name)
                    case "thinking" | "redacted_thinking":
                        thoughts[event.index] = block.without_nulls()
                        order.thought(thoughts[event.index])
            case "content_block_delta":
                delta = event.delta
                match delta.type:
                    case "text_delta" if delta.text:
                        order.text(delta.text)
                        yield interface.Text(delta.text)
                    case "input_json_delta" if delta.partial_json:
                        yield interface.CallArguments(calls[event.index], delta.partial_json)
                    case "thinking_delta" if delta.thinking:
                        thoughts[event.index]["thinking"] += delta.thinking
                        yield interface.Thinking(delta.thinking)
                    case "signature_delta":
                        thoughts[event.index]["signature"] = delta.signature
            case "content_block_stop" if event.index in calls:
                yield interface.CallEnded(calls[event.index])
            case "message_delta":
                usage, reason = _usage(event.usage, usage), event.delta.stop_reason
            case "message_stop":
                ended = True
    if not ended:
        raise Transient("the stream ended in the middle of a reply")
    if fresh := meter.read(usage):
        yield fresh
    yield interface.Finish(FINISHES.get(reason, "other"), order.opaque("anthropic"))


def _usage(reported: Any, before: interface.Usage) -> interface.Usage:
    """The total so far. The API reports totals, and its `input_tokens` do not include the cached ones."""
    output, input_ = count(reported.output_tokens) or before.output, count(reported.input_tokens)
    if input_ is None:
        return interface.Usage(before.input, before.cached, before.cache_written, output)
    cached, written = count(reported.cache_read_input_tokens), count(reported.cache_creation_input_tokens)
    cached, written = _or(cached, before.cached), _or(written, before.cache_written)
    return interface.Usage(input_ + cached + written, cached, written, output)


def _or(reported: int | None, before: int) -> int:
    return before if reported is None else reported
