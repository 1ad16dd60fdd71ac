"""Google's models, over the Gemini API. Each call arrives in one part."""

import json
import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any
from urllib.parse import quote

from hutch.domain.generation_options import Effort
from hutch.llm import interface
from hutch.llm.http_model import HttpModel
from hutch.llm.json_fields import Fields, count, fields
from hutch.llm.provider_account import Account
from hutch.llm.reply_normalization import CallIds, Meter, json_object
from hutch.llm.reply_part_order import Order, OrderedCall, TextPart, in_order
from hutch.llm.transient_error_type import Transient

FINISHES: dict[str, interface.FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "SAFETY": "refused",
    "RECITATION": "refused",
    "BLOCKLIST": "refused",
    "PROHIBITED_CONTENT": "refused",
    "SPII": "refused",
}
BROKEN = {"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE"}
PREFIXES = ("models/", "tunedModels/")
BY_BUDGET = re.compile(r"gemini-[12]\b")  # these models know no levels of thinking
BUDGETS: dict[Effort, int] = {"low": 2048, "medium": 8192, "high": 24_576}  # tokens


class GeminiModel(HttpModel):
    context_tokens: int | None = 1_000_000

    def __init__(self, account: Account) -> None:
        super().__init__(account)
        model = account.model if account.model.startswith(PREFIXES) else f"models/{account.model}"
        self.path = f"/v1beta/{quote(model)}:streamGenerateContent?alt=sse"

    def _headers(self) -> dict[str, str]:
        return {"X-Goog-Api-Key": self._account.key}

    async def _names(self) -> list[str]:
        return [model["name"] for model in (await self._client.get("/v1beta/models?pageSize=1000"))["models"]]

    def _body(self, request: interface.Request) -> dict[str, Any]:
        return _body(request, thinks_by_budget=bool(BY_BUDGET.search(self._account.model)))

    def _deltas(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
        return _deltas(events, ids)


def _body(request: interface.Request, *, thinks_by_budget: bool = False) -> dict[str, Any]:
    config: dict[str, Any] = {"maxOutputTokens": request.max_tokens}
    if request.temperature is not None:
        config["temperature"] = request.temperature
    if request.effort is not None:
        budget = {"thinkingBudget": BUDGETS[request.effort]}
        config["thinkingConfig"] = budget if thinks_by_budget else {"thinkingLevel": request.effort}
    body: dict[str, Any] = {"contents": _contents(request.messages), "generationConfig": config}
    if request.system:
        body["systemInstruction"] = {"parts": [{"text": request.system}]}
    if request.tools:
        declared = [
            {
                "name": tool.name,
                "description": tool.description,
                "parametersJsonSchema": dict(tool.parameters),
            }
            for tool in request.tools
        ]
        body["tools"] = [{"functionDeclarations": declared}]
    return body


def _contents(messages: tuple[interface.Message, ...]) -> list[dict[str, Any]]:
    """Merge neighbours of one role into one content: the API requires the results of calls to be together."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        role = "model" if isinstance(message, interface.FromModel) else "user"
        parts = list(_parts(message))
        if turns and turns[-1]["role"] == role:
            turns[-1]["parts"] += parts
        elif parts:
            turns.append({"role": role, "parts": parts})
    return turns


def _parts(message: interface.Message) -> Iterator[dict[str, Any]]:
    match message:
        case interface.FromUser():
            yield {"text": message.text}
        case interface.FromTool():
            result = {"output" if message.ok else "error": message.text}
            yield {"functionResponse": {"id": message.call_id, "name": message.tool, "response": result}}
            if message.image is not None:
                yield {"inlineData": {"mimeType": message.image.media_type, "data": message.image.data}}
        case interface.FromModel():
            for part in in_order(message, "gemini"):
                match part:
                    case TextPart() if part.text or part.mark:
                        yield {"text": part.text, **_signed(part)}
                    case OrderedCall(call):
                        called = {"id": call.id, "name": call.tool, "args": json_object(call)}
                        yield {"functionCall": called, **_signed(part)}


def _signed(part: TextPart | OrderedCall) -> dict[str, str]:
    signature = part.mark.get("signature")
    return {"thoughtSignature": signature} if signature else {}


def _mark(part: Fields) -> dict[str, str]:
    return {"signature": part.thoughtSignature} if part.thoughtSignature else {}


async def _deltas(events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
    order, meter = Order(), Meter()
    reason, calls = "", 0
    async for raw in events:
        chunk = fields(raw)
        if chunk.usageMetadata and (fresh := meter.read(_usage(chunk.usageMetadata))):
            yield fresh
        if chunk.promptFeedback and chunk.promptFeedback.blockReason:
            reason = "SAFETY"
        for candidate in (chunk.candidates or ())[:1]:
            for part in (candidate.content and candidate.content.parts) or ():
                if part.functionCall:
                    call = part.functionCall
                    if not call.name:
                        raise Transient("a call has no tool name")
                    id_ = ids.take(call.id)
                    calls += 1
                    order.call(id_, **_mark(part))
                    yield interface.CallStarted(id_, call.name)
                    yield interface.CallArguments(
                        id_, json.dumps(call.as_sent("args") or {}, ensure_ascii=False)
                    )
                    yield interface.CallEnded(id_)
                elif part.thought:
                    if part.text:
                        yield interface.Thinking(part.text)
                elif part.text or part.thoughtSignature:
                    order.text(part.text or "", **_mark(part))
                    if part.text:
                        yield interface.Text(part.text)
            if candidate.finishReason:
                reason = str(candidate.finishReason)
    if not reason or reason in BROKEN:
        raise Transient(
            f"the reply was broken ({reason})" if reason else "the stream ended in the middle of a reply"
        )
    finish: interface.FinishReason = FINISHES.get(reason, "other")
    yield interface.Finish("calls" if calls and finish == "stop" else finish, order.opaque("gemini"))


def _usage(reported: Any) -> interface.Usage:
    return interface.Usage(
        input=count(reported.promptTokenCount) or 0,
        cached=count(reported.cachedContentTokenCount) or 0,
        output=(count(reported.candidatesTokenCount) or 0) + (count(reported.thoughtsTokenCount) or 0),
    )
