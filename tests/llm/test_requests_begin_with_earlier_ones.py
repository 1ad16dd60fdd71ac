"""Each request begins with the bytes of the previous one, so that caches hit."""

import asyncio
import base64
import itertools
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hutch.llm.interface import Call, FromModel, FromTool, FromUser, Message, Request, ToolSpec
from tests.llm.provider_formats import ANTHROPIC, CHAT, DIALECTS, GEMINI, OLLAMA, Dialect, pieces
from tests.llm.provider_server import Act, playing

TOOLS = (ToolSpec("bash", "Run a command.", {"type": "object", "properties": {}}),)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SIGNATURE = base64.urlsafe_b64encode(b"signed").decode()
THOUGHTS = {
    "anthropic": [{"thought": {"type": "thinking", "thinking": "hm", "signature": "s"}}],
    "openai": [{"thought": {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"}}],
    "gemini": [{"text": 0, "mark": {"signature": SIGNATURE}}],
}


@st.composite
def turns(draw: st.DrawFn) -> list[list[Message]]:
    """The messages that are added between two requests."""
    found: list[list[Message]] = [[FromUser(draw(WORDS))]]
    for number in range(draw(st.integers(1, 4))):
        calls = tuple(
            Call(f"c{number}_{place}", "bash", draw(st.sampled_from(["{}", '{"a":  1}', "{oops"])))
            for place in range(draw(st.integers(0, 2)))
        )
        opaque = draw(st.sampled_from([{}, *({name: {"parts": parts}} for name, parts in THOUGHTS.items())]))
        turn: list[Message] = [FromModel(draw(WORDS), calls, opaque)]
        turn += [FromTool(call.id, "bash", draw(WORDS), ok=draw(st.booleans())) for call in calls]
        if not calls or draw(st.booleans()):
            turn.append(FromUser(draw(WORDS)))
        found.append(turn)
    return found


async def request_bodies(dialect: Dialect, steps: list[list[Message]]) -> list[dict[str, Any]]:
    """The request bodies of a conversation, as received by the server."""
    requests = [
        Request("Be good.", tuple(message for step in steps[: upto + 1] for message in step), TOOLS)
        for upto in range(len(steps))
    ]
    async with playing(*(Act(dialect.reply("x", ())) for _ in requests)) as wire:
        for request in requests:
            await pieces(dialect.open(wire), request)
    return [json.loads(each.text) for each in wire.requests]


def blocks(dialect: Dialect, body: dict[str, Any]) -> list[tuple[str, str]]:
    """The conversation as a list of blocks, each as its bytes on the wire."""
    if dialect in (CHAT, OLLAMA):
        return [("", json.dumps(message)) for message in body["messages"]]
    if dialect is ANTHROPIC:
        parts = [(turn["role"], block) for turn in body["messages"] for block in turn["content"]]
    elif dialect is GEMINI:
        parts = [(turn["role"], part) for turn in body["contents"] for part in turn["parts"]]
    else:
        parts = [("", item) for item in body["input"]]
    return [(role, json.dumps({**block, "cache_control": None})) for role, block in parts]


def marks(body: dict[str, Any]) -> list[int]:
    """The indices of blocks with a cache mark."""
    row = [block for turn in body.get("messages", ()) for block in turn["content"] if isinstance(block, dict)]
    return [place for place, block in enumerate(row) if "cache_control" in block]


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(steps=turns())
def test_a_request_begins_with_the_one_before(dialect: Dialect, steps: list[list[Message]]) -> None:
    bodies = asyncio.run(request_bodies(dialect, steps))
    rest = [
        {key: value for key, value in body.items() if key not in ("messages", "contents", "input")}
        for body in bodies
    ]
    assert all(json.dumps(one) == json.dumps(rest[0]) for one in rest)
    for before, after in itertools.pairwise(bodies):
        old, new = blocks(dialect, before), blocks(dialect, after)
        assert new[: len(old)] == old
        if dialect is ANTHROPIC:
            assert 1 <= len(marks(after)) <= 2
            assert marks(after)[0] >= marks(before)[0]
            assert marks(after)[-1] == max(place for place, (role, _) in enumerate(new) if role == "user")
