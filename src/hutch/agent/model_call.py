"""Asks a model for one reply, and makes the event of it: no lone surrogates, no secrets, plain JSON."""

import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from secrets import token_hex
from typing import Any

import orjson

from hutch.agent.text_for_model import without_surrogates
from hutch.domain.events import CallMade, ModelReplied
from hutch.domain.redaction import Redactor
from hutch.llm.interface import Again, Call, CallStarted, Delta, Model, Request, Text, Thinking
from hutch.llm.reply_builder import Reply, ReplyBuilder
from hutch.llm.reply_cost import NO_OWN_PRICES, Prices, cost_usd

OnDelta = Callable[[Delta], None]


class FirstToken:
    """Passes the parts of a reply on, and notes when the first of its content arrived."""

    def __init__(self, on_delta: OnDelta) -> None:
        self._on_delta = on_delta
        self._at_s: float | None = None

    def __call__(self, delta: Delta) -> None:
        if isinstance(delta, Again):  # the reply begins anew
            self._at_s = None
        elif self._at_s is None and isinstance(delta, Text | Thinking | CallStarted):
            self._at_s = time.monotonic()
        self._on_delta(delta)

    def since(self, began: float) -> float | None:
        return None if self._at_s is None else round(self._at_s - began, 6)


async def ask(model: Model, request: Request, redactor: Redactor, on_delta: OnDelta) -> Reply:
    """Ask for a reply, and pass its parts to `on_delta` as they arrive."""
    builder = ReplyBuilder()
    async with aclosing(model.stream(request)) as deltas:
        async for delta in deltas:
            builder.add(delta)
            on_delta(delta)
    return cleaned(builder.reply(), redactor)


def cleaned(reply: Reply, redactor: Redactor) -> Reply:
    """A reply without secrets and lone surrogates, as the log has it."""

    def clean(text: str) -> str:
        return redactor.redact(without_surrogates(text))

    def id_of(call: Call) -> str:
        id_ = without_surrogates(call.id)
        return id_ if clean(id_) == id_ else f"call_{token_hex(8)}"  # two redacted ids could be the same

    return replace(
        reply,
        text=clean(reply.text),
        thinking=clean(reply.thinking),
        calls=tuple(Call(id_of(call), clean(call.tool), clean(call.arguments)) for call in reply.calls),
        opaque=as_read_back(dict(reply.opaque)),
    )


def replied(
    run_id: str,
    turn: int,
    model: Model,
    reply: Reply,
    began: float,
    prices: Prices = NO_OWN_PRICES,
    *,
    first_token_s: float | None = None,
) -> ModelReplied:
    """The event of a reply."""
    return ModelReplied(
        run_id=run_id,
        turn=turn,
        text=reply.text,
        thinking=reply.thinking,
        calls=tuple(CallMade(id=call.id, tool=call.tool, arguments=call.arguments) for call in reply.calls),
        finish=reply.finish,
        input_tokens=reply.usage.input,
        cached_tokens=reply.usage.cached,
        output_tokens=reply.usage.output,
        cost_usd=cost_usd(model.name, reply.usage, prices),
        attempts=reply.attempts,
        duration_s=round(time.monotonic() - began, 6),
        first_token_s=first_token_s,
        opaque=dict(reply.opaque),
    )


def as_read_back(value: Any) -> Any:
    """JSON as the log will return it, so that a resumed run sends the model the same bytes."""
    try:
        return orjson.loads(orjson.dumps(value, option=orjson.OPT_SORT_KEYS))
    except orjson.JSONEncodeError:
        return as_read_back(_replace_surrogates(value))


def _replace_surrogates(value: Any) -> Any:
    match value:
        case str():
            return without_surrogates(value)
        case dict():
            return {without_surrogates(str(key)): _replace_surrogates(part) for key, part in value.items()}
        case list() | tuple():
            return [_replace_surrogates(part) for part in value]
        case int() if not isinstance(value, bool) and value.bit_length() > 63:
            return float(value)
        case None | bool() | int() | float():
            return value
    return without_surrogates(str(value))
