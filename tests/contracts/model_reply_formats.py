"""Replies of a model in the format of each implementation: a provider's wire protocol, or a cassette."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from hutch.llm.interface import FinishReason, Model, Usage
from hutch.llm.recording_model import RecordingModel
from hutch.llm.retry import RetryingModel
from hutch.llm.scripted_model import ScriptedModel
from hutch.llm.scripted_reply_file import parse_cassette
from tests.llm import provider_formats
from tests.llm.provider_formats import QUICK, Dialect, anthropic_event, chat_call, chat_chunk, gemini_chunk
from tests.llm.provider_formats import responses_event as response
from tests.llm.provider_server import Act, Wire, answer, event, playing

USAGE = Usage(input=1000, cached=800, output=40)
Calls = tuple[tuple[str, str, tuple[str, ...]], ...]  # id, tool, the arguments in pieces


@dataclass(frozen=True)
class Say:
    """One reply, with its text and arguments in pieces."""

    text: tuple[str, ...] = ()
    calls: Calls = ()
    usage: Usage = USAGE
    finish: FinishReason = "stop"
    broken: Literal["", "malformed", "stall"] = ""  # after the first half


@dataclass(frozen=True)
class Refuse:
    """An error in place of a reply."""

    status: int
    retry_after_s: float | None = None


Turn = Say | Refuse


@dataclass
class Opened:
    """A model under test, and the server behind it, if there is one."""

    model: Model
    wire: Wire | None = None


def anthropic(say: Say) -> list[bytes]:
    fresh = say.usage.input - say.usage.cached
    usage = {"input_tokens": fresh, "cache_read_input_tokens": say.usage.cached, "output_tokens": 0}
    message = {"id": "m", "type": "message", "role": "assistant", "content": [], "usage": usage}
    parts = [anthropic_event("message_start", message=message)]
    blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
    if say.text:
        deltas = [{"type": "text_delta", "text": text} for text in say.text]
        blocks.append(({"type": "text", "text": ""}, deltas))
    for id_, tool, arguments in say.calls:
        begun = {"type": "tool_use", "id": id_, "name": tool, "input": {}}
        blocks.append((begun, [{"type": "input_json_delta", "partial_json": each} for each in arguments]))
    for index, (begun, deltas) in enumerate(blocks):
        parts.append(anthropic_event("content_block_start", index=index, content_block=begun))
        parts += [anthropic_event("content_block_delta", index=index, delta=delta) for delta in deltas]
        parts.append(anthropic_event("content_block_stop", index=index))
    reasons = {"stop": "end_turn", "calls": "tool_use", "length": "max_tokens", "refused": "refusal"}
    ended = {"stop_reason": reasons[say.finish], "stop_sequence": None}
    spent = {"output_tokens": say.usage.output}
    return [
        *parts,
        anthropic_event("message_delta", delta=ended, usage=spent),
        anthropic_event("message_stop"),
    ]


def chat(say: Say) -> list[bytes]:
    parts = [chat_chunk({"content": text}) for text in say.text]
    for place, (id_, tool, arguments) in enumerate(say.calls):
        parts.append(chat_chunk({"tool_calls": [chat_call(place, id_, tool, "")]}))
        parts += [chat_chunk({"tool_calls": [chat_call(place, None, None, each)]}) for each in arguments]
    reasons = {"stop": "stop", "calls": "tool_calls", "length": "length", "refused": "content_filter"}
    usage = {
        "prompt_tokens": say.usage.input,
        "completion_tokens": say.usage.output,
        "prompt_tokens_details": {"cached_tokens": say.usage.cached},
    }
    return [*parts, chat_chunk({}, reasons[say.finish]), chat_chunk(None, usage=usage), event("[DONE]")]


def responses(say: Say) -> list[bytes]:
    parts = [
        response("response.created", response=provider_formats.responses_whole("in_progress", usage=None))
    ]
    if say.text:
        item = {"id": "msg", "type": "message", "role": "assistant", "content": []}
        at: dict[str, Any] = {"item_id": "msg", "output_index": 0, "content_index": 0}
        parts.append(response("response.output_item.added", output_index=0, item=item))
        parts += [response("response.output_text.delta", **at, delta=text) for text in say.text]
        parts.append(response("response.output_item.done", output_index=0, item=item))
    for place, (id_, tool, arguments) in enumerate(say.calls, start=1):
        item = {"id": f"fc_{place}", "type": "function_call", "call_id": id_, "name": tool, "arguments": ""}
        at = {"item_id": f"fc_{place}", "output_index": place}
        parts.append(response("response.output_item.added", output_index=place, item=item))
        parts += [response("response.function_call_arguments.delta", **at, delta=each) for each in arguments]
        whole = {**item, "arguments": "".join(arguments)}
        parts.append(response("response.output_item.done", output_index=place, item=whole))
    usage = {
        "input_tokens": say.usage.input,
        "input_tokens_details": {"cached_tokens": say.usage.cached},
        "output_tokens": say.usage.output,
    }
    cut = {"length": "max_output_tokens", "refused": "content_filter"}.get(say.finish)
    if cut is None:
        done = provider_formats.responses_whole(usage=usage)
        return [*parts, response("response.completed", response=done)]
    done = provider_formats.responses_whole("incomplete", usage=usage, incomplete_details={"reason": cut})
    return [*parts, response("response.incomplete", response=done)]


def gemini(say: Say) -> list[bytes]:
    parts = [gemini_chunk([{"text": text}]) for text in say.text]
    for id_, tool, arguments in say.calls:  # this provider sends arguments whole
        call = {"id": id_, "name": tool, "args": json.loads("".join(arguments))}
        parts.append(gemini_chunk([{"functionCall": call}]))
    reasons = {"stop": "STOP", "calls": "STOP", "length": "MAX_TOKENS", "refused": "SAFETY"}
    return [
        *parts,
        gemini_chunk(
            [],
            reasons[say.finish],
            promptTokenCount=say.usage.input,
            cachedContentTokenCount=say.usage.cached,
            candidatesTokenCount=say.usage.output,
        ),
    ]


@dataclass(frozen=True)
class Speaker:
    """One implementation of `Model`, opened so that it says these turns."""

    name: str
    dialect: Dialect | None = None  # None: a cassette
    to_wire: Callable[[Say], list[bytes]] = chat
    records: bool = False  # what it says is kept in a file

    def __str__(self) -> str:
        return self.name

    @asynccontextmanager
    async def open(self, turns: Sequence[Turn], place: Path) -> AsyncIterator[Opened]:
        async with AsyncExitStack() as stack:
            if self.dialect is None:
                cassette = parse_cassette(json.dumps([_scripted(turn) for turn in turns]), "test")
                opened = Opened(RetryingModel(ScriptedModel("scripted:test", cassette), QUICK))
            else:
                wire = await stack.enter_async_context(playing(*map(self._act, turns)))
                opened = Opened(self.dialect.open(wire), wire)
            if self.records:
                opened.model = RecordingModel(opened.model, place / "tape.json", clean=str)
            stack.push_async_callback(opened.model.close)
            yield opened

    def _act(self, turn: Turn) -> Act:
        assert self.dialect is not None
        if isinstance(turn, Refuse):
            after = {} if turn.retry_after_s is None else {"Retry_After": str(turn.retry_after_s)}
            return answer(turn.status, self.dialect.error(turn.status, "an_error", "No."), **after)
        chunks = self.to_wire(turn)
        half = chunks[: (len(chunks) + 1) // 2]
        if turn.broken == "malformed":
            name = "content_block_delta" if self.dialect is provider_formats.ANTHROPIC else None
            return Act([*half, event('{"oops', name)])
        return Act(half, ending="stall") if turn.broken == "stall" else Act(chunks)


def _scripted(turn: Turn) -> dict[str, Any]:
    if isinstance(turn, Refuse):
        fault = {"kind": "status", "status": turn.status, "retry_after_s": turn.retry_after_s}
        return {"fault": fault}
    usage = {"input": turn.usage.input, "cached": turn.usage.cached, "output": turn.usage.output}
    calls = [{"id": id_, "tool": tool, "args": "".join(parts)} for id_, tool, parts in turn.calls]
    said = {"text": "".join(turn.text), "calls": calls, "usage": usage, "finish": turn.finish}
    return said | ({"fault": {"kind": turn.broken}} if turn.broken else {})


SPEAKERS = (
    Speaker("anthropic", provider_formats.ANTHROPIC, anthropic),
    Speaker("openai-chat", provider_formats.CHAT, chat),
    Speaker("openai-responses", provider_formats.RESPONSES, responses),
    Speaker("gemini", provider_formats.GEMINI, gemini),
    Speaker("ollama", provider_formats.OLLAMA, chat),
    Speaker("scripted"),
    Speaker("recording-a-provider", provider_formats.CHAT, chat, records=True),
    Speaker("recording-a-script", records=True),
)
