"""OpenAI's Responses protocol, which works best with its own models.

The service stores nothing: its encrypted thoughts are sent back with the next request.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from typing import Any

from hutch.llm import interface
from hutch.llm.http_model import HttpModel
from hutch.llm.json_fields import Fields, count, fields
from hutch.llm.provider_account import Account
from hutch.llm.provider_errors import STATUSES, ErrorDetails, explain_error
from hutch.llm.reply_normalization import CallIds, json_arguments
from hutch.llm.reply_part_order import Order, OrderedCall, TextPart, Thought, in_order
from hutch.llm.transient_error_type import Transient

WITHOUT_THOUGHTS = ("gpt-3", "gpt-4", "chatgpt-")  # these refuse a request for encrypted thoughts


class OpenAIResponsesModel(HttpModel):
    path = "/responses"

    def _body(self, request: interface.Request) -> dict[str, Any]:
        body: dict[str, Any] = {
            "model": self._account.model,
            "instructions": request.system or None,
            "input": [item for message in request.messages for item in _items(message)],
            "max_output_tokens": request.max_tokens,
            "store": False,
            "stream": True,
            "parallel_tool_calls": True,
        }
        if not self._account.model.startswith(WITHOUT_THOUGHTS):
            body["include"] = ["reasoning.encrypted_content"]
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
        if request.effort is not None:
            body["reasoning"] = {"effort": request.effort}
        return body

    def _deltas(self, events: AsyncIterator[Any], ids: CallIds) -> AsyncGenerator[interface.Delta]:
        return _deltas(events, ids, self._account)


def _items(message: interface.Message) -> Iterator[dict[str, Any]]:
    match message:
        case interface.FromUser():
            yield {"role": "user", "content": message.text}
        case interface.FromTool():
            text = message.text if message.ok else f"Error: {message.text}"
            output: str | list[dict[str, Any]] = text
            if message.image is not None:
                shown = {"type": "input_image", "image_url": message.image.url}
                output = [{"type": "input_text", "text": text}, shown]
            yield {"type": "function_call_output", "call_id": message.call_id, "output": output}
        case interface.FromModel():
            for part in in_order(message, "openai"):
                match part:
                    case Thought():
                        yield dict(part.block)
                    case TextPart() if part.text:
                        yield {"role": "assistant", "content": part.text, **part.mark}
                    case OrderedCall():
                        yield {
                            "type": "function_call",
                            "call_id": part.call.id,
                            "name": part.call.tool,
                            "arguments": json_arguments(part.call),
                        }


async def _deltas(
    events: AsyncIterator[Any], ids: CallIds, account: Account
) -> AsyncGenerator[interface.Delta]:
    calls: dict[int, str] = {}
    with_arguments: set[int] = set()  # calls whose arguments were streamed
    phase: dict[str, str] = {}  # of the current message
    order, refused = Order(), False
    async for raw in events:
        event = fields(raw)
        match event.type:
            case "response.output_item.added" if event.item.type == "function_call":
                id_ = calls[event.output_index] = ids.take(event.item.call_id)
                order.call(id_)
                yield interface.CallStarted(id_, event.item.name)
            case "response.output_item.added" if event.item.type == "message":
                phase = {"phase": event.item.phase} if event.item.phase else {}
            case "response.output_text.delta":
                order.text(event.delta, **phase)
                yield interface.Text(event.delta)
            case "response.refusal.delta":
                refused = True
                order.text(event.delta, **phase)
                yield interface.Text(event.delta)
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                yield interface.Thinking(event.delta)
            case "response.function_call_arguments.delta" if event.delta:
                with_arguments.add(event.output_index)
                yield interface.CallArguments(calls[event.output_index], event.delta)
            case "response.output_item.done" if event.item.type == "function_call":
                id_ = calls[event.output_index]
                if event.item.arguments and event.output_index not in with_arguments:
                    yield interface.CallArguments(id_, event.item.arguments)
                yield interface.CallEnded(id_)
            case "response.output_item.done" if event.item.type == "reasoning":
                if event.item.encrypted_content:  # the service rejects a thought without it
                    order.thought(_without_status(event.item))
            case "response.completed" | "response.incomplete":
                if event.response.usage:
                    yield _usage(event.response.usage)
                yield interface.Finish(_reason(event.response, bool(calls), refused), order.opaque("openai"))
                return
            case "response.failed":
                raise _failed(account, event.response.error)
            case "error":
                raise _failed(account, event)
    raise Transient("the stream ended in the middle of a reply")


def _without_status(item: Fields) -> dict[str, Any]:
    return {name: value for name, value in item.without_nulls().items() if name != "status"}


def _reason(response: Any, calls: bool, refused: bool) -> interface.FinishReason:
    why = getattr(response.incomplete_details, "reason", None)
    if why is not None:
        return "length" if why == "max_output_tokens" else "refused"
    return "refused" if refused else "calls" if calls else "stop"


def _failed(account: Account, error: Any) -> Exception:
    code = str(getattr(error, "code", None) or "")
    text = account.without_key(str(getattr(error, "message", None) or code or "no reason given"))
    return explain_error(account, ErrorDetails(text, STATUSES.get(code), f"{code} {text}".lower()))


def _usage(reported: Any) -> interface.Usage:
    details = reported.input_tokens_details
    return interface.Usage(
        input=count(reported.input_tokens) or 0,
        cached=count(getattr(details, "cached_tokens", None)) or 0,
        cache_written=count(getattr(details, "cache_write_tokens", None)) or 0,
        output=count(reported.output_tokens) or 0,
    )
