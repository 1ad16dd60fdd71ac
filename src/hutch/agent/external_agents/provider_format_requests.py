"""Reads requests in the formats of other providers: Chat Completions, Responses, and Messages.

They come from the jail, so everything in them is hostile. Content that the interface of models lacks, such
as images in the text of users, is left out; a note says so to the model.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from hutch.domain.errors import BadRequest
from hutch.llm.interface import Call, FromModel, FromTool, FromUser, Message, Request, ToolSpec
from hutch.system.lazy_dataclass import dataclass

MAX_MESSAGES, MAX_TOOLS = 5_000, 500
MAX_REPLY_TOKENS = 64_000
OMITTED = "[An attachment was left out: only text is passed on.]"
FREE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
Opaque = Callable[[str, tuple[Call, ...]], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class WireRequest:
    """A request, and how its sender wants the reply."""

    request: Request
    streams: bool
    free_text_tools: frozenset[str] = frozenset()  # their argument is one text, not JSON
    wants_usage: bool = True


class Conversation:
    """The messages of a request; neighbouring parts of one reply become one message."""

    def __init__(self, opaque_of: Opaque, clean: Callable[[str], str]) -> None:
        self._opaque_of, self._clean = opaque_of, clean
        self._system: list[str] = []
        self._messages: list[Message] = []
        self._tools: dict[str, str] = {}  # names, by call
        self._text: list[str] = []
        self._calls: list[Call] = []

    def system(self, text: str) -> None:
        if text:
            self._system.append(self._clean(text))

    def user(self, text: str) -> None:
        self._end_reply()
        if text:
            self._add(FromUser(self._clean(text)))

    def reply(self, text: str) -> None:
        if text:
            self._text.append(self._clean(text))

    def call(self, id: object, tool: object, arguments: object) -> None:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        self._tools[str(id)] = name = self._clean(str(tool))
        self._calls.append(Call(self._clean(str(id)), name, self._clean(text)))

    def result(self, id: object, text: str, *, ok: bool = True) -> None:
        self._end_reply()
        tool = self._tools.get(str(id))
        if tool is None:
            raise BadRequest(f"The result of the call {str(id)[:80]!r} comes without the call.")
        self._add(FromTool(self._clean(str(id)), tool, self._clean(text), ok))

    def request(self, tools: Iterable[ToolSpec], max_tokens: object) -> Request:
        self._end_reply()
        if not self._messages:
            raise BadRequest("The request has no message.")
        specs = tuple(
            ToolSpec(self._clean(each.name), self._clean(each.description), self._clean_all(each.parameters))
            for each in tools
        )
        if len(specs) > MAX_TOOLS:
            raise BadRequest(f"The request has {len(specs)} tools; {MAX_TOOLS} is the maximum.")
        tokens = max_tokens if isinstance(max_tokens, int) and max_tokens > 0 else 16_384
        system = "\n\n".join(self._system)
        return Request(system, tuple(self._messages), specs, max_tokens=min(tokens, MAX_REPLY_TOKENS))

    def _clean_all(self, value: Any) -> Any:
        match value:
            case str():
                return self._clean(value)
            case list():
                return [self._clean_all(each) for each in value]
            case dict():
                return {self._clean(key): self._clean_all(each) for key, each in value.items()}
        return value

    def _end_reply(self) -> None:
        if self._text or self._calls:
            text, calls = "".join(self._text), tuple(self._calls)
            self._text, self._calls = [], []
            self._add(FromModel(text, calls, self._opaque_of(text, calls)))

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        if len(self._messages) > MAX_MESSAGES:
            raise BadRequest(f"The request has more than {MAX_MESSAGES} messages.")


def read_chat(body: Mapping[str, Any], talk: Conversation) -> WireRequest:
    for message in _objects(body.get("messages")):
        text, role = _text(message.get("content")), message.get("role")
        match role:
            case "system" | "developer":
                talk.system(text)
            case "user":
                talk.user(text)
            case "assistant":
                talk.reply(text)
                for call in _objects(message.get("tool_calls")):
                    function = _object(call.get("function"))
                    talk.call(call.get("id"), function.get("name"), function.get("arguments") or "{}")
            case "tool":
                talk.result(message.get("tool_call_id"), text)
            case _:
                raise BadRequest(f"There is no role {str(role)[:40]!r}.")
    functions = (_object(tool.get("function")) for tool in _objects(body.get("tools")))
    specs = (_spec(each, "parameters") for each in functions if each)
    asked = body.get("max_completion_tokens") or body.get("max_tokens")
    options = _object(body.get("stream_options"))
    return WireRequest(
        talk.request(specs, asked), bool(body.get("stream")), wants_usage=bool(options.get("include_usage"))
    )


def read_responses(body: Mapping[str, Any], talk: Conversation) -> WireRequest:
    talk.system(_text(body.get("instructions")))
    given = body.get("input")
    for item in [{"role": "user", "content": given}] if isinstance(given, str) else _objects(given):
        match item.get("type", "message"):
            case "message" if item.get("role") in ("system", "developer"):
                talk.system(_text(item.get("content")))
            case "message" if item.get("role") == "assistant":
                talk.reply(_text(item.get("content")))
            case "message":
                talk.user(_text(item.get("content")))
            case "function_call":
                talk.call(item.get("call_id"), item.get("name"), item.get("arguments") or "{}")
            case "custom_tool_call":
                talk.call(item.get("call_id"), item.get("name"), {"input": item.get("input")})
            case "function_call_output" | "custom_tool_call_output":
                talk.result(item.get("call_id"), _text(item.get("output")))
    specs, free = [], set()
    for tool in _objects(body.get("tools")):
        if tool.get("type") == "function":
            specs.append(_spec(tool, "parameters"))
        elif tool.get("type") == "custom":
            grammar = _object(tool.get("format")).get("definition")
            note = f"\n\nThe input has this grammar:\n{grammar}" if isinstance(grammar, str) else ""
            described = f"{tool.get('description') or ''}{note}"
            specs.append(ToolSpec(str(tool.get("name")), described, FREE_TEXT))
            free.add(str(tool.get("name")))
    request = talk.request(specs, body.get("max_output_tokens"))
    return WireRequest(request, bool(body.get("stream")), frozenset(free))


def read_messages(body: Mapping[str, Any], talk: Conversation) -> WireRequest:
    talk.system(_text(body.get("system")))
    for message in _objects(body.get("messages")):
        content = message.get("content")
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else list(_objects(content))
        if message.get("role") == "assistant":
            for block in blocks:
                if block.get("type") == "tool_use":
                    talk.call(block.get("id"), block.get("name"), block.get("input") or {})
                elif block.get("type") == "text":
                    talk.reply(_text([block]))
            continue
        for block in blocks:
            if block.get("type") == "tool_result":
                ok = not block.get("is_error")
                talk.result(block.get("tool_use_id"), _text(block.get("content")), ok=ok)
        talk.user(_text([block for block in blocks if block.get("type") != "tool_result"]))
    specs = (_spec(tool, "input_schema") for tool in _objects(body.get("tools")) if tool.get("input_schema"))
    return WireRequest(talk.request(specs, body.get("max_tokens")), bool(body.get("stream")))


READERS = {
    "/chat/completions": read_chat,
    "/responses": read_responses,
    "/messages": read_messages,
}


def _spec(tool: Mapping[str, Any], schema: str) -> ToolSpec:
    parameters = _object(tool.get(schema)) or {"type": "object", "properties": {}}
    return ToolSpec(str(tool.get("name")), str(tool.get("description") or ""), parameters)


def _text(content: object) -> str:
    """The text of a content: a string, or parts of which only texts are passed on."""
    if isinstance(content, str):
        return content
    return "\n".join(_part(part) for part in _objects(content))


def _part(part: Mapping[str, Any]) -> str:
    text = part.get("text")
    return text if isinstance(text, str) else OMITTED


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    if value is None:
        return
    if not isinstance(value, list):
        raise BadRequest("A list was expected in the request.")
    for each in value:
        yield _object(each)


def _object(value: object) -> Mapping[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise BadRequest("An object was expected in the request.")
    return value
