"""Google's models, through its own client library.

Calls arrive whole. Leaving its stream early does not stop the wire, so we keep hold
of the answers of its connection ourselves and close them.
"""

import base64
import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types

from hutch.llm.bounds import bounded
from hutch.llm.calls import CallIds, Meter, json_object
from hutch.llm.faults import Transient
from hutch.llm.fields import count
from hutch.llm.order import Order, Said, Wanted, in_order
from hutch.llm.provider import CONNECT_S, READ_S, Account, trusted
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
from hutch.llm.trouble import plain, translated

FINISHES: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
}
BROKEN = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"}
# Who asks: the request is sent within the same step in which this is set, so nobody comes between.
_asking: ContextVar[list[httpx2.Response]] = ContextVar("asking")


class GeminiModel:
    """See `seam.Model`."""

    context_tokens: int | None = 1_000_000

    def __init__(self, account: Account) -> None:
        self.name = account.full_name
        self._account = account
        self._http = httpx2.AsyncClient(
            verify=trusted(),
            event_hooks={"request": [_hurry], "response": [_keep, bounded]},
            follow_redirects=True,
        )
        options = types.HttpOptions(
            base_url=account.base_url, timeout=int(READ_S * 1000), httpx_async_client=self._http
        )
        # Said explicitly: else the environment may turn it into another service with other keys.
        self._client = genai.Client(api_key=account.key, vertexai=False, http_options=options)

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        contents, config = _contents(request.messages), _config(request)
        async with translated(self._account, errors.APIError, names=self._names), _hold():
            reply = await self._client.aio.models.generate_content_stream(
                model=self._account.model, contents=contents, config=config
            )
            async for piece in plain(_pieces(reply, CallIds(request))):
                yield piece

    async def close(self) -> None:
        await self._client.aio.aclose()
        self._client.close()
        await self._http.aclose()

    async def _names(self) -> list[str]:
        async with _hold():
            return [model.name or "" async for model in await self._client.aio.models.list()]


@asynccontextmanager
async def _hold() -> AsyncIterator[None]:
    """Close the answers to what is asked in here."""
    answers: list[httpx2.Response] = []
    _asking.set(answers)
    try:
        yield
    finally:
        for answer in answers:
            await answer.aclose()


async def _hurry(request: httpx2.Request) -> None:
    """The library has one time for all; but a connection that is not made soon never is."""
    request.extensions["timeout"] = {**request.extensions.get("timeout", {}), "connect": CONNECT_S}


async def _keep(response: httpx2.Response) -> None:
    _asking.get([]).append(response)


def _config(request: Request) -> types.GenerateContentConfig:
    tools = [
        types.FunctionDeclaration(
            name=tool.name, description=tool.description, parameters_json_schema=dict(tool.parameters)
        )
        for tool in request.tools
    ]
    return types.GenerateContentConfig(
        system_instruction=request.system or None,
        max_output_tokens=request.most_tokens,
        temperature=request.temperature,
        tools=[types.Tool(function_declarations=tools)] if tools else None,
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        automatic_continuation=False,
    )


def _contents(messages: tuple[Message, ...]) -> list[types.Content]:
    """Neighbours of one role become one content: the answers to calls must stand together."""
    turns: list[types.Content] = []
    for message in messages:
        role = "model" if isinstance(message, FromModel) else "user"
        parts = list(_parts(message))
        if turns and turns[-1].role == role:
            turns[-1] = types.Content(role=role, parts=[*(turns[-1].parts or ()), *parts])
        elif parts:
            turns.append(types.Content(role=role, parts=parts))
    return turns


def _parts(message: Message) -> Iterator[types.Part]:
    match message:
        case FromUser():
            yield types.Part(text=message.text)
        case FromTool():
            said = {"output" if message.ok else "error": message.text}
            yield types.Part(
                function_response=types.FunctionResponse(id=message.call_id, name=message.tool, response=said)
            )
        case FromModel():
            for part in in_order(message, "gemini"):
                match part:
                    case Said() if part.text or part.mark:
                        yield types.Part(text=part.text, thought_signature=_signature(part))
                    case Wanted(call):
                        wanted = types.FunctionCall(id=call.id, name=call.tool, args=dict(json_object(call)))
                        yield types.Part(function_call=wanted, thought_signature=_signature(part))


def _signature(part: Said | Wanted) -> bytes | None:
    text = part.mark.get("signature")
    return base64.b64decode(text) if text else None


def _mark(part: types.Part) -> dict[str, str]:
    signature = part.thought_signature
    return {"signature": base64.b64encode(signature).decode()} if signature else {}


async def _pieces(reply: Any, ids: CallIds) -> AsyncGenerator[Delta]:
    order, meter = Order(), Meter()
    reason, calls = "", 0
    async for chunk in reply:
        if chunk.usage_metadata and (fresh := meter.read(_usage(chunk.usage_metadata))):
            yield fresh
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            reason = "SAFETY"
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call:
                    call = part.function_call
                    if not call.name:
                        raise Transient("a call came without the name of a tool")
                    id_ = ids.take(call.id)
                    calls += 1
                    order.call(id_, **_mark(part))
                    yield CallStarted(id_, call.name)
                    yield CallArguments(id_, json.dumps(call.args or {}, ensure_ascii=False))
                    yield CallEnded(id_)
                elif part.thought:
                    if part.text:
                        yield Thinking(part.text)
                elif part.text or part.thought_signature:
                    order.text(part.text or "", **_mark(part))
                    if part.text:
                        yield Text(part.text)
            if candidate.finish_reason:
                reason = candidate.finish_reason.name
    if not reason or reason in BROKEN:
        raise Transient(
            f"the reply was broken ({reason})" if reason else "the stream ended in the middle of a reply"
        )
    finish: FinishReason = FINISHES.get(reason, "other")
    yield Finish("calls" if calls and finish == "stop" else finish, order.opaque("gemini"))


def _usage(told: Any) -> Usage:
    return Usage(
        input=count(told.prompt_token_count) or 0,
        cached=count(told.cached_content_token_count) or 0,
        output=(count(told.candidates_token_count) or 0) + (count(told.thoughts_token_count) or 0),
    )
