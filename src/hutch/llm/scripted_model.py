"""A model that plays the replies of a cassette, without any network.

It behaves like a provider: it streams, can be slow, break off and be retried. It finds
the used replies in the conversation, and in the messages that a summary replaced, so
that it continues at the right reply after a crash. It writes no summaries: these would
use up its replies.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

from hutch.domain.errors import BadRequest, Denied, HutchError, LimitReached, NotFound
from hutch.llm.interface import (
    CallArguments,
    CallEnded,
    CallStarted,
    Delta,
    Finish,
    FromModel,
    FromTool,
    Request,
    Text,
    Thinking,
    Usage,
)
from hutch.llm.reply_normalization import CallIds
from hutch.llm.scripted_reply_file import Cassette, Reply, When, load_cassette
from hutch.llm.transient_error_type import TRANSIENT_STATUSES, Transient

OFFLINE = Path(__file__).with_name("offline.json")  # played when no model is configured
DEMO = Path(__file__).with_name("demo.yaml")  # `scripted:demo` repairs the sample
DELTA_CHARS = 24
STALL_S = 3600.0
CHARS_PER_TOKEN = 4


class ScriptedModel:
    """Implements `interface.Model`."""

    def __init__(self, name: str, cassette: Cassette) -> None:
        self.name = name
        self.context_tokens = cassette.context_tokens
        self._replies = cassette.replies
        self._faults_played: Counter[int] = Counter()

    @classmethod
    def load(cls, path: Path) -> "ScriptedModel":
        return cls(f"scripted:{path}", load_cassette(path))

    async def stream(self, request: Request) -> AsyncGenerator[Delta]:
        if request.summary:
            raise BadRequest(f"{self.name} writes no summaries.")
        number = self._choose(request)
        reply = self._replies[number]
        if reply.delay_s:
            await asyncio.sleep(reply.delay_s)
        if reply.fault:
            self._faults_played[number] += 1
        deltas = list(_deltas(reply, number, CallIds(request)))
        if reply.fault and reply.fault.kind == "status":
            status, wait_s = reply.fault.status, reply.fault.retry_after_s
            if status in TRANSIENT_STATUSES:
                raise Transient(f"the cassette says {status}", status=status, retry_after_s=wait_s)
            raise _refusal(status)
        if reply.fault:
            deltas = deltas[: (len(deltas) + 1) // 2]
        for delta in deltas:
            if reply.pace_s:
                await asyncio.sleep(reply.pace_s)
            yield delta
        match reply.fault and reply.fault.kind:
            case "cut":
                raise Transient("the stream ended in the middle of a reply")
            case "malformed":
                raise Transient("the stream held something that is not JSON")
            case "stall":
                await asyncio.sleep(STALL_S)
        yield _usage(reply, request)
        reason = reply.finish or ("calls" if reply.calls else "stop")
        yield Finish(reason, {"scripted": {"reply": number}})

    async def close(self) -> None:
        """Do nothing: no connection is open."""

    def _choose(self, request: Request) -> int:
        """The first reply that is not used up and whose condition holds."""
        messages = (*request.compacted, *request.messages)
        turns = [message for message in messages if isinstance(message, FromModel)]
        used = Counter(message.opaque.get("scripted", {}).get("reply") for message in turns)
        last = next((found for found in reversed(messages) if isinstance(found, FromTool)), None)
        for number, reply in enumerate(self._replies):
            spent = self._faults_played[number] if reply.fault else used[number]
            if spent < reply.times and (reply.when is None or _holds(reply.when, last)):
                return number
        remaining = sum(
            used[number] < reply.times for number, reply in enumerate(self._replies) if not reply.fault
        )
        why = f"none of the {remaining} left matches the last tool result" if remaining else "all are used up"
        raise BadRequest(
            f"{self.name} has no reply for turn {len(turns) + 1}: {why}. Add one to the cassette, "
            f"or use a real model: set a key with `hutch config set-secret`."
        )


def _refusal(status: int) -> HutchError:
    """The same kind of error as a provider's for this status."""
    text = f"The scripted model refuses with status {status}."
    match status:
        case 401 | 403:
            return Denied(text)
        case 402:
            return LimitReached(text, limit="scripted quota")
        case 404:
            return NotFound(text)
    return BadRequest(text)


def _holds(when: When, last: FromTool | None) -> bool:
    if last is None:
        return False
    return (
        (when.tool is None or when.tool == last.tool)
        and (when.ok is None or when.ok == last.ok)
        and (when.contains is None or when.contains in last.text)
        and (when.lacks is None or when.lacks not in last.text)
    )


def _deltas(reply: Reply, number: int, ids: CallIds) -> Iterator[Delta]:
    yield from (Thinking(part) for part in _cut(reply.thinking))
    yield from (Text(part) for part in _cut(reply.text))
    for index, call in enumerate(reply.calls):
        id_ = ids.take(call.id or f"call_{number}_{index}")
        arguments = call.args if isinstance(call.args, str) else json.dumps(call.args, ensure_ascii=False)
        yield CallStarted(id_, call.tool)
        yield from (CallArguments(id_, part) for part in _cut(arguments))
        yield CallEnded(id_)


def _cut(text: str) -> Iterator[str]:
    return (text[at : at + DELTA_CHARS] for at in range(0, len(text), DELTA_CHARS))


def _usage(reply: Reply, request: Request) -> Usage:
    if reply.usage is not None:
        return Usage(**reply.usage.model_dump())
    input_chars = len(request.system) + sum(len(getattr(message, "text", "")) for message in request.messages)
    output_chars = len(reply.text) + len(reply.thinking) + sum(len(str(call.args)) for call in reply.calls)
    return Usage(input=input_chars // CHARS_PER_TOKEN, output=output_chars // CHARS_PER_TOKEN)
