"""Google's models, through its own client library.

Calls arrive whole. Leaving its stream early does not stop the wire, so each reply
has a client of its own that is closed with it.
"""

import json
from collections.abc import AsyncGenerator, Iterator
from typing import Any

from google import genai
from google.genai import errors, types

from hutch.llm.faults import Transient
from hutch.llm.provider import Account, json_object, translated
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


class GeminiModel:
    """See `seam.Model`."""

    context_tokens: int | None = 1_000_000

    def __init__(self, account: Account) -> None:
        self.name = account.full_name
        self._account = account

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        options = types.HttpOptions(
            base_url=self._account.base_url, timeout=int(self._account.timeout_s * 1000)
        )
        client = genai.Client(api_key=self._account.key, http_options=options)
        try:
            async with translated(self._account, errors.APIError):
                reply = await client.aio.models.generate_content_stream(
                    model=self._account.model,
                    contents=_contents(request.messages),
                    config=_config(request),
                )
                async for piece in _pieces(reply):
                    yield piece
        finally:
            await client.aio.aclose()
            client.close()

    async def close(self) -> None:
        """Nothing is open between replies."""


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
            signatures = message.opaque.get("gemini", {}).get("signatures", {})
            if message.text:
                yield types.Part(text=message.text)
            for call in message.calls:
                wanted = types.FunctionCall(id=call.id, name=call.tool, args=dict(json_object(call)))
                signature = signatures.get(call.id)
                yield types.Part(
                    function_call=wanted, thought_signature=bytes.fromhex(signature) if signature else None
                )


async def _pieces(reply: Any) -> AsyncGenerator[Delta]:
    usage, reason, calls = Usage(), "", 0
    used: set[str] = set()
    signatures: dict[str, str] = {}
    async for chunk in reply:
        if chunk.usage_metadata:
            usage = _usage(chunk.usage_metadata)
        if chunk.prompt_feedback and chunk.prompt_feedback.block_reason:
            reason = "SAFETY"
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                if part.function_call:
                    call = part.function_call
                    id_ = call.id if call.id and call.id not in used else f"call_{calls}"
                    used.add(id_)
                    calls += 1
                    if part.thought_signature:
                        signatures[id_] = part.thought_signature.hex()
                    yield CallStarted(id_, call.name or "")
                    yield CallArguments(id_, json.dumps(call.args or {}, ensure_ascii=False))
                    yield CallEnded(id_)
                elif part.text:
                    yield Thinking(part.text) if part.thought else Text(part.text)
            if candidate.finish_reason:
                reason = candidate.finish_reason.name
    if not reason or reason in BROKEN:
        raise Transient(
            f"the reply was broken ({reason})" if reason else "the stream ended in the middle of a reply"
        )
    yield usage
    finish: FinishReason = FINISHES.get(reason, "other")
    yield Finish(
        "calls" if calls and finish == "stop" else finish,
        {"gemini": {"signatures": signatures}} if signatures else {},
    )


def _usage(told: Any) -> Usage:
    thought = told.thoughts_token_count or 0
    return Usage(
        input=told.prompt_token_count or 0,
        cached=told.cached_content_token_count or 0,
        output=(told.candidates_token_count or 0) + thought,
    )
