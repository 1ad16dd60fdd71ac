"""OpenAI's Responses protocol, with which its own models think best.

Nothing is kept with the service: what it wants back, its encrypted thoughts, goes
back with the next request.
"""

from collections.abc import AsyncGenerator, Iterator
from typing import Any

import openai

from hutch.domain.errors import BadRequest
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


class OpenAIResponsesModel:
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
            reply = await self._client.responses.create(**self._body(request), stream=True)
            async with reply:
                async for piece in _pieces(reply):
                    yield piece

    async def close(self) -> None:
        await self._client.close()

    def _body(self, request: Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "instructions": request.system or None,
            "input": [item for message in request.messages for item in _items(message)],
            "max_output_tokens": request.most_tokens,
            "store": False,
            "include": ["reasoning.encrypted_content"],
            "parallel_tool_calls": True,
        }
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": dict(tool.parameters),
                    "strict": False,
                }
                for tool in request.tools
            ]
        if request.temperature is not None:
            body["temperature"] = request.temperature
        return body


def _items(message: Message) -> Iterator[dict[str, Any]]:
    match message:
        case FromUser():
            yield {"role": "user", "content": message.text}
        case FromTool():
            text = message.text if message.ok else f"Error: {message.text}"
            yield {"type": "function_call_output", "call_id": message.call_id, "output": text}
        case FromModel():
            yield from message.opaque.get("openai", {}).get("reasoning", ())
            if message.text:
                yield {"role": "assistant", "content": message.text}
            for call in message.calls:
                yield {
                    "type": "function_call",
                    "call_id": call.id,
                    "name": call.tool,
                    "arguments": call.arguments or "{}",
                }


async def _pieces(reply: "openai.AsyncStream[Any]") -> AsyncGenerator[Delta]:
    calls: dict[int, str] = {}
    reasoning: list[dict[str, Any]] = []
    refused = False
    async for event in reply:
        match event.type:
            case "response.output_item.added" if event.item.type == "function_call":
                calls[event.output_index] = event.item.call_id
                yield CallStarted(event.item.call_id, event.item.name)
            case "response.output_text.delta":
                yield Text(event.delta)
            case "response.refusal.delta":
                refused = True
                yield Text(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield Thinking(event.delta)
            case "response.function_call_arguments.delta" if event.output_index in calls:
                yield CallArguments(calls[event.output_index], event.delta)
            case "response.output_item.done" if event.item.type == "function_call":
                yield CallEnded(calls[event.output_index])
            case "response.output_item.done" if event.item.type == "reasoning":
                reasoning.append(event.item.model_dump(exclude_none=True, exclude={"status"}))
            case "response.completed" | "response.incomplete":
                if event.response.usage:
                    yield _usage(event.response.usage)
                yield Finish(
                    _reason(event.response, bool(calls), refused),
                    {"openai": {"reasoning": reasoning}} if reasoning else {},
                )
                return
            case "response.failed":
                raise _failed(event.response.error)
            case "error":
                raise _failed(event)
    raise Transient("the stream ended in the middle of a reply")


def _reason(response: Any, calls: bool, refused: bool) -> FinishReason:
    why = getattr(response.incomplete_details, "reason", None)
    if why is not None:
        return "length" if why == "max_output_tokens" else "refused"
    return "refused" if refused else "calls" if calls else "stop"


def _failed(error: Any) -> Exception:
    code, message = getattr(error, "code", "") or "", getattr(error, "message", "") or "no reason given"
    if code in ("invalid_prompt", "invalid_request_error", "model_not_found", "context_length_exceeded"):
        return BadRequest(f"The model refused the request: {message}")
    return Transient(f"{code or 'error'}: {message}")


def _usage(told: Any) -> Usage:
    cached = getattr(told.input_tokens_details, "cached_tokens", None) or 0
    return Usage(input=told.input_tokens, cached=cached, output=told.output_tokens)
