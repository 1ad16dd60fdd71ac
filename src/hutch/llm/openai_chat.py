"""OpenAI's chat protocol, which many servers speak: OpenAI, Ollama, llama.cpp, vLLM."""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import openai

from hutch.llm.faults import Transient
from hutch.llm.provider import Account, translated
from hutch.llm.seam import (
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
    "stop": "stop",
    "tool_calls": "calls",
    "function_call": "calls",
    "length": "length",
    "content_filter": "refused",
}


class OpenAIChatModel:
    """See `seam.Model`."""

    def __init__(self, account: Account, *, context_tokens: int | None = None) -> None:
        self.name = account.full_name
        self.context_tokens = context_tokens
        self._account = account
        self._client = openai.AsyncOpenAI(
            api_key=account.key, base_url=account.base_url, max_retries=0, timeout=account.timeout_s
        )

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        async with translated(self._account, openai.APIError):
            reply = await self._client.chat.completions.create(**self._body(request), stream=True)
            async with reply:
                async for piece in _pieces(reply):
                    yield piece

    async def close(self) -> None:
        await self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "messages": [
                *([{"role": "system", "content": request.system}] if request.system else []),
                *(each for message in request.messages for each in _message(message)),
            ],
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


def _message(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case FromUser():
            yield {"role": "user", "content": message.text}
        case FromTool():
            text = message.text if message.ok else f"Error: {message.text}"
            yield {"role": "tool", "tool_call_id": message.call_id, "content": text}
        case FromModel():
            said: dict[str, Any] = {"role": "assistant", "content": message.text or None}
            if message.calls:
                said["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.tool, "arguments": call.arguments or "{}"},
                    }
                    for call in message.calls
                ]
            yield said


async def _pieces(reply: "openai.AsyncStream[Any]") -> AsyncGenerator[Delta]:
    open_calls: dict[int, str] = {}  # their ids by place; servers may leave ids out or repeat them
    used: set[str] = set()
    reason: str | None = None
    async for chunk in reply:
        if chunk.usage:
            yield _usage(chunk.usage)
        for choice in chunk.choices[:1]:
            delta = choice.delta
            if thought := getattr(delta, "reasoning_content", None) or getattr(delta, "reasoning", None):
                yield Thinking(thought)
            if delta.content:
                yield Text(delta.content)
            for part in delta.tool_calls or ():
                place = part.index if part.index is not None else len(open_calls)
                function = part.function
                if place not in open_calls:
                    if not (function and function.name):
                        raise Transient("a call came without the name of a tool")
                    id_ = part.id if part.id and part.id not in used else f"call_{place}_{len(used)}"
                    used.add(id_)
                    open_calls[place] = id_
                    yield CallStarted(id_, function.name)
                if function and function.arguments:
                    yield CallArguments(open_calls[place], function.arguments)
            reason = choice.finish_reason or reason
    if reason is None:
        raise Transient("the stream ended in the middle of a reply")
    for id_ in open_calls.values():
        yield CallEnded(id_)
    yield Finish("calls" if open_calls and reason == "stop" else FINISHES.get(reason, "other"))


def _usage(told: Any) -> Usage:
    details = getattr(told, "prompt_tokens_details", None)
    cached = getattr(details, "cached_tokens", None) or 0
    return Usage(input=told.prompt_tokens or 0, cached=cached, output=told.completion_tokens or 0)
