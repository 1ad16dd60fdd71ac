"""OpenAI's chat protocol. Many servers use variants of it: OpenAI, Ollama, llama.cpp, vLLM."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from typing import Any

from hutch.llm import interface
from hutch.llm.http_model import HttpModel
from hutch.llm.json_fields import Fields, count, fields
from hutch.llm.reply_normalization import CallIds, Meter, json_arguments
from hutch.llm.transient_error_type import Transient

FINISHES: dict[str | None, interface.FinishReason] = {
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class OpenAIChatModel(HttpModel):
    path = "/chat/completions"

    def _body(self, request: interface.Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "messages": [
                *([{"role": "system", "content": request.system}] if request.system else []),
                *_messages(request.messages),
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        own = self._account.provider == "openai"
        body["max_completion_tokens" if own else "max_tokens"] = request.max_tokens
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.parameters),
                    },
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        if request.effort is not None:
            body["reasoning_effort"] = request.effort
        return body

    def _deltas(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
        return _deltas(events, ids)


def _messages(messages: Sequence[interface.Message]) -> Iterator[dict[str, Any]]:
    """A tool's message has only text, so images follow the results of all calls of a reply, as a user's."""
    images: list[dict[str, Any]] = []
    for message in messages:
        if images and not isinstance(message, interface.FromTool):
            yield {"role": "user", "content": images}
            images = []
        yield from _message(message)
        if isinstance(message, interface.FromTool) and message.image is not None:
            images.append({"type": "text", "text": f"The image of the result {message.call_id}:"})
            images.append({"type": "image_url", "image_url": {"url": message.image.url}})
    if images:
        yield {"role": "user", "content": images}


def _message(message: interface.Message) -> Iterator[dict[str, Any]]:
    match message:
        case interface.FromUser():
            yield {"role": "user", "content": message.text}
        case interface.FromTool():
            text = message.text if message.ok else f"Error: {message.text}"
            yield {"role": "tool", "tool_call_id": message.call_id, "content": text}
        case interface.FromModel() if message.text or message.calls:
            reply: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.calls:
                reply["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.tool, "arguments": json_arguments(call)},
                    }
                    for call in message.calls
                ]
            yield reply


class _Calls:
    """The calls of a reply, from servers that number them, number all with 0, or send no ids."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._open: dict[int, _Open] = {}  # the newest call at each index
        self.all: list[_Open] = []

    def add(self, part: Any) -> Iterator[interface.Delta]:
        function = part.function
        name = arguments = None
        if isinstance(function, Fields):
            name, arguments = function.name, function.as_sent("arguments")
        arguments, index = _text(arguments), part.index
        if index is None:
            index = len(self.all) if name else len(self.all) - 1
        call = self._open.get(index)
        if call is None or call.ends_before(part.id, name, arguments):
            if not name:
                raise Transient("a call has no tool name")
            call = _Open(self._ids.take(part.id), part.id)
            self._open[index] = call
            self.all.append(call)
            yield interface.CallStarted(call.id, name)
        if arguments:
            call.arguments += arguments
            yield interface.CallArguments(call.id, arguments)


class _Open:
    """A call that may be incomplete."""

    def __init__(self, id_: str, server_id: str | None) -> None:
        self.id = id_
        self.server_id = server_id
        self.arguments = ""

    def ends_before(self, server_id: str | None, name: str | None, arguments: str) -> bool:
        """True if the next part at the same index begins another call."""
        if server_id and self.server_id and server_id != self.server_id:
            return True
        return bool(name and arguments) and _is_whole(self.arguments)


def _is_whole(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _text(arguments: Any) -> str:
    """Arguments as text; some servers send them as JSON objects."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


async def _deltas(events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
    calls, meter = _Calls(ids), Meter()
    reason: str | None = None
    refused = False
    async for raw in events:
        chunk = fields(raw)
        # Some servers send the usage with every chunk.
        if chunk.usage and (fresh := meter.read(_usage(chunk.usage))):
            yield fresh
        for choice in (chunk.choices or ())[:1]:
            delta = choice.delta
            if thought := getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None):
                yield interface.Thinking(str(thought))
            if delta.content:
                yield interface.Text(str(delta.content))
            if delta.refusal:
                refused = True
                yield interface.Text(str(delta.refusal))
            for part in delta.tool_calls or ():
                for call_delta in calls.add(part):
                    yield call_delta
            reason = choice.finish_reason or reason
    if reason is None:
        raise Transient("the stream ended in the middle of a reply")
    for call in calls.all:
        yield interface.CallEnded(call.id)
    finish = FINISHES.get(reason, "other")
    if finish == "stop":
        finish = "calls" if calls.all else "refused" if refused else "stop"
    yield interface.Finish(finish)


def _usage(reported: Any) -> interface.Usage:
    details = getattr(reported, "prompt_tokens_details", None)
    return interface.Usage(
        input=count(reported.prompt_tokens) or 0,
        cached=count(getattr(details, "cached_tokens", None)) or 0,
        cache_written=count(getattr(details, "cache_write_tokens", None)) or 0,
        output=count(reported.completion_tokens) or 0,
    )
