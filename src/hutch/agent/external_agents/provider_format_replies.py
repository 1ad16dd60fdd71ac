"""Writes replies in the formats of other providers, as streams of events and as whole objects."""

import json
from collections.abc import Iterator, Mapping
from secrets import token_hex
from typing import Any

from hutch.llm.interface import CallArguments, CallEnded, CallStarted, Delta, Text
from hutch.llm.reply_builder import Reply

NAME = "hutch"  # of the model: agents learn nothing about the real one
Frame = Mapping[str, Any]


class ChatReply:
    """Chat Completions."""

    def __init__(self, free_text_tools: frozenset[str], *, wants_usage: bool) -> None:
        self._id, self._wants_usage = f"chatcmpl-{token_hex(12)}", wants_usage
        self._calls: dict[str, int] = {}

    def begin(self) -> Iterator[bytes]:
        yield self._chunk({"role": "assistant", "content": ""})

    def add(self, delta: Delta) -> Iterator[bytes]:
        match delta:
            case Text(text):
                yield self._chunk({"content": text})
            case CallStarted(id, tool):
                number = self._calls[id] = len(self._calls)
                function = {"name": tool, "arguments": ""}
                yield self._chunk(
                    {"tool_calls": [{"index": number, "id": id, "type": "function", "function": function}]}
                )
            case CallArguments(id, text):
                part = {"index": self._calls[id], "function": {"arguments": text}}
                yield self._chunk({"tool_calls": [part]})

    def end(self, reply: Reply) -> Iterator[bytes]:
        yield self._chunk({}, finish=_chat_finish(reply))
        if self._wants_usage:
            yield _data({**self._base("chat.completion.chunk"), "choices": [], "usage": _chat_usage(reply)})
        yield b"data: [DONE]\n\n"

    def whole(self, reply: Reply) -> Frame:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
        if reply.calls:
            message["tool_calls"] = [
                {
                    "id": each.id,
                    "type": "function",
                    "function": {"name": each.tool, "arguments": each.arguments},
                }
                for each in reply.calls
            ]
        choice = {"index": 0, "message": message, "finish_reason": _chat_finish(reply)}
        return {**self._base("chat.completion"), "choices": [choice], "usage": _chat_usage(reply)}

    def error(self, status: int, message: str) -> Frame:
        return {"error": {"message": message, "type": _error_type(status), "code": None, "param": None}}

    def failure(self, status: int, message: str) -> bytes:
        return _data(self.error(status, message))

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": self._id, "object": kind, "created": 0, "model": NAME}

    def _chunk(self, delta: Frame, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return _data({**self._base("chat.completion.chunk"), "choices": [choice]})


class ResponsesReply:
    """Responses."""

    def __init__(self, free_text_tools: frozenset[str], *, wants_usage: bool) -> None:
        self._id, self._free = f"resp_{token_hex(12)}", free_text_tools
        self._number = 0
        self._text_item: dict[str, Any] | None = None
        self._text: list[str] = []
        self._calls: dict[str, tuple[int, dict[str, Any], list[str]]] = {}
        self._output: list[dict[str, Any]] = []

    def begin(self) -> Iterator[bytes]:
        yield self._event("response.created", response=self._response("in_progress"))

    def add(self, delta: Delta) -> Iterator[bytes]:
        match delta:
            case Text(text):
                if self._text_item is None:
                    yield from self._begin_text()
                self._text.append(text)
                where = {"item_id": self._item["id"], "output_index": len(self._output), "content_index": 0}
                yield self._event("response.output_text.delta", **where, delta=text)
            case CallStarted(id, tool):
                yield from self._end_text()
                item = _call_item(id, tool, "", free=tool in self._free)
                at = len(self._output) + len(self._calls)
                self._calls[id] = (at, item, [])
                yield self._event("response.output_item.added", output_index=at, item=item)
            case CallArguments(id, text):
                at, item, parts = self._calls[id]
                parts.append(text)
                if item["type"] == "function_call":
                    kind = "response.function_call_arguments.delta"
                    yield self._event(kind, item_id=item["id"], output_index=at, delta=text)
            case CallEnded(id):
                at, item, parts = self._calls[id]
                arguments = "".join(parts)
                done = _call_item(id, item["name"], arguments, free=item["name"] in self._free)
                if item["type"] == "function_call":
                    kind = "response.function_call_arguments.done"
                    yield self._event(kind, item_id=item["id"], output_index=at, arguments=arguments)
                yield self._event("response.output_item.done", output_index=at, item=done)

    def end(self, reply: Reply) -> Iterator[bytes]:
        yield from self._end_text()
        yield self._event("response.completed", response=self.whole(reply))

    def whole(self, reply: Reply) -> Frame:
        output = [_text_item(reply.text)] if reply.text else []
        output += [_call_item(c.id, c.tool, c.arguments, free=c.tool in self._free) for c in reply.calls]
        usage = reply.usage
        return {
            **self._response("completed" if reply.finish != "length" else "incomplete"),
            "output": output,
            "usage": {
                "input_tokens": usage.input,
                "input_tokens_details": {"cached_tokens": usage.cached},
                "output_tokens": usage.output,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": usage.input + usage.output,
            },
        }

    def error(self, status: int, message: str) -> Frame:
        return {"error": {"message": message, "type": _error_type(status), "code": None, "param": None}}

    def failure(self, status: int, message: str) -> bytes:
        failed = {**self._response("failed"), "error": {"code": "server_error", "message": message}}
        return self._event("response.failed", response=failed)

    @property
    def _item(self) -> dict[str, Any]:
        assert self._text_item is not None
        return self._text_item

    def _begin_text(self) -> Iterator[bytes]:
        self._text_item, self._text = _text_item(""), []
        at = len(self._output)
        added = {**self._item, "status": "in_progress", "content": []}
        yield self._event("response.output_item.added", output_index=at, item=added)
        part = {"type": "output_text", "text": "", "annotations": []}
        where = {"item_id": self._item["id"], "output_index": at, "content_index": 0}
        yield self._event("response.content_part.added", **where, part=part)

    def _end_text(self) -> Iterator[bytes]:
        if self._text_item is None:
            return
        text, at = "".join(self._text), len(self._output)
        item = {**_text_item(text), "id": self._item["id"]}
        where = {"item_id": item["id"], "output_index": at, "content_index": 0}
        yield self._event("response.output_text.done", **where, text=text)
        yield self._event("response.content_part.done", **where, part=item["content"][0])
        yield self._event("response.output_item.done", output_index=at, item=item)
        self._text_item = None
        self._output.append(item)

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "response",
            "created_at": 0,
            "model": NAME,
            "status": status,
            "output": [],
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }

    def _event(self, kind: str, **fields: Any) -> bytes:
        self._number += 1
        return _data({"type": kind, "sequence_number": self._number, **fields}, kind)


class MessagesReply:
    """Messages."""

    def __init__(self, free_text_tools: frozenset[str], *, wants_usage: bool) -> None:
        self._id = f"msg_{token_hex(12)}"
        self._index = -1
        self._open = ""  # the kind of the open block

    def begin(self) -> Iterator[bytes]:
        message = {**self._message(), "content": [], "stop_reason": None, "stop_sequence": None}
        message["usage"] = {"input_tokens": 0, "output_tokens": 0}
        yield self._event("message_start", message=message)

    def add(self, delta: Delta) -> Iterator[bytes]:
        match delta:
            case Text(text):
                if self._open != "text":
                    yield from self._begin("text", {"type": "text", "text": ""})
                yield self._delta({"type": "text_delta", "text": text})
            case CallStarted(id, tool):
                block = {"type": "tool_use", "id": id, "name": tool, "input": {}}
                yield from self._begin("tool_use", block)
            case CallArguments(_, text):
                yield self._delta({"type": "input_json_delta", "partial_json": text})
            case CallEnded():
                yield from self._end()

    def end(self, reply: Reply) -> Iterator[bytes]:
        yield from self._end()
        stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        yield self._event("message_delta", delta=stop, usage=_messages_usage(reply))
        yield self._event("message_stop")

    def whole(self, reply: Reply) -> Frame:
        content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
        for each in reply.calls:
            content.append(
                {"type": "tool_use", "id": each.id, "name": each.tool, "input": _json(each.arguments)}
            )
        stop = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        return {**self._message(), "content": content, **stop, "usage": _messages_usage(reply)}

    def error(self, status: int, message: str) -> Frame:
        return {"type": "error", "error": {"type": _error_type(status), "message": message}}

    def failure(self, status: int, message: str) -> bytes:
        return _data(self.error(status, message), "error")

    def _message(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": NAME}

    def _begin(self, kind: str, block: Frame) -> Iterator[bytes]:
        yield from self._end()
        self._index += 1
        self._open = kind
        yield self._event("content_block_start", index=self._index, content_block=block)

    def _end(self) -> Iterator[bytes]:
        if self._open:
            self._open = ""
            yield self._event("content_block_stop", index=self._index)

    def _delta(self, delta: Frame) -> bytes:
        return self._event("content_block_delta", index=self._index, delta=delta)

    def _event(self, kind: str, **fields: Any) -> bytes:
        return _data({"type": kind, **fields}, kind)


WireReply = ChatReply | ResponsesReply | MessagesReply
WRITERS: Mapping[str, type[WireReply]] = {
    "/chat/completions": ChatReply,
    "/responses": ResponsesReply,
    "/messages": MessagesReply,
}


def _data(value: Frame, event: str = "") -> bytes:
    name = f"event: {event}\n" if event else ""
    return f"{name}data: {json.dumps(value)}\n\n".encode()


def _text_item(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": f"msg_{token_hex(8)}", "role": "assistant", "status": "completed"}
    return {**item, "content": [part]}


def _call_item(id: str, tool: str, arguments: str, *, free: bool) -> dict[str, Any]:
    base = {"id": f"fc_{id}", "call_id": id, "name": tool, "status": "completed"}
    if free:
        given = _json(arguments).get("input")
        return {**base, "type": "custom_tool_call", "input": given if isinstance(given, str) else arguments}
    return {**base, "type": "function_call", "arguments": arguments}


def _json(arguments: str) -> dict[str, Any]:
    try:
        value = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return {"text": arguments}
    return value if isinstance(value, dict) else {"value": value}


def _chat_finish(reply: Reply) -> str:
    if reply.calls:
        return "tool_calls"
    return {"length": "length", "refused": "content_filter"}.get(reply.finish, "stop")


def _stop_reason(reply: Reply) -> str:
    if reply.calls:
        return "tool_use"
    return {"length": "max_tokens", "refused": "refusal"}.get(reply.finish, "end_turn")


def _chat_usage(reply: Reply) -> Frame:
    usage = reply.usage
    return {
        "prompt_tokens": usage.input,
        "completion_tokens": usage.output,
        "total_tokens": usage.input + usage.output,
        "prompt_tokens_details": {"cached_tokens": usage.cached},
    }


def _messages_usage(reply: Reply) -> Frame:
    usage = reply.usage
    return {
        "input_tokens": max(0, usage.input - usage.cached - usage.cache_written),
        "cache_read_input_tokens": usage.cached,
        "cache_creation_input_tokens": usage.cache_written,
        "output_tokens": usage.output,
    }


def _error_type(status: int) -> str:
    kinds = {400: "invalid_request_error", 401: "authentication_error", 404: "not_found_error"}
    return {**kinds, 413: "request_too_large", 429: "rate_limit_error"}.get(status, "api_error")
