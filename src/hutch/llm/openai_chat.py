"""OpenAI's chat protocol, which many servers speak, each in its own way: OpenAI, Ollama, llama.cpp, vLLM."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from hutch.llm import interface
from hutch.llm.errors import Transient
from hutch.llm.http_model import HttpModel
from hutch.llm.json_fields import Fields, count, fields
from hutch.llm.tool_calls import CallIds, Meter, json_arguments

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
                *(each for message in request.messages for each in _message(message)),
            ],
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        own = self._account.provider == "openai"
        body["max_completion_tokens" if own else "max_tokens"] = request.most_tokens
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
        return body

    def _pieces(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
        return _pieces(events, ids)


def _message(message: interface.Message) -> Iterator[dict[str, Any]]:
    match message:
        case interface.FromUser():
            yield {"role": "user", "content": message.text}
        case interface.FromTool():
            text = message.text if message.ok else f"Error: {message.text}"
            yield {"role": "tool", "tool_call_id": message.call_id, "content": text}
        case interface.FromModel() if message.text or message.calls:
            said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.calls:
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.tool, "arguments": json_arguments(call)},
                    }
                    for call in message.calls
                ]
            yield said


class _Calls:
    """The calls of a reply, from servers that number them, or all have the number 0, or have no ids."""

    def __init__(self, ids: CallIds) -> None:
        self._ids = ids
        self._open: dict[int, _Open] = {}  # the newest call at each place
        self.all: list[_Open] = []

    def add(self, part: Any) -> Iterator[interface.Delta]:
        function = part.function
        name = arguments = None
        if isinstance(function, Fields):
            name, arguments = function.name, function.as_sent("arguments")
        arguments, place = _text(arguments), part.index
        if place is None:
            place = len(self.all) if name else len(self.all) - 1
        call = self._open.get(place)
        if call is None or call.ends_before(part.id, name, arguments):
            if not name:
                raise Transient("a call came without the name of a tool")
            call = _Open(self._ids.take(part.id), part.id)
            self._open[place] = call
            self.all.append(call)
            yield interface.CallStarted(call.id, name)
        if arguments:
            call.arguments += arguments
            yield interface.CallArguments(call.id, arguments)


class _Open:
    """A call that may not be complete yet."""

    def __init__(self, id_: str, told: str | None) -> None:
        self.id = id_
        self.told = told
        self.arguments = ""

    def ends_before(self, told: str | None, name: str | None, arguments: str) -> bool:
        """Whether what comes next at the same place begins another call."""
        if told and self.told and told != self.told:
            return True
        return bool(name and arguments) and _is_whole(self.arguments)


def _is_whole(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def _text(arguments: Any) -> str:
    """Arguments are JSON as text; some servers send them as JSON."""
    return arguments if isinstance(arguments, str) else json.dumps(arguments) if arguments else ""


async def _pieces(events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
    calls, meter = _Calls(ids), Meter()
    reason: str | None = None
    refused = False
    async for piece in events:
        chunk = fields(piece)
        if chunk.usage and (fresh := meter.read(_usage(chunk.usage))):  # some tell it with every piece
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
                for piece in calls.add(part):
                    yield piece
            reason = choice.finish_reason or reason
    if reason is None:
        raise Transient("the stream ended in the middle of a reply")
    for call in calls.all:
        yield interface.CallEnded(call.id)
    finish = FINISHES.get(reason, "other")
    if finish == "stop":
        finish = "calls" if calls.all else "refused" if refused else "stop"
    yield interface.Finish(finish)


def _usage(told: Any) -> interface.Usage:
    details = getattr(told, "prompt_tokens_details", None)
    return interface.Usage(
        input=count(told.prompt_tokens) or 0,
        cached=count(getattr(details, "cached_tokens", None)) or 0,
        cache_written=count(getattr(details, "cache_write_tokens", None)) or 0,
        output=count(told.completion_tokens) or 0,
    )
