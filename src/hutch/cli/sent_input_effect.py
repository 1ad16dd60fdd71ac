"""Describes the effect of an input to a session: the run, and whether the agent received it.

When the server responds it has processed the input, or will later. The effect is in the log after the
event that was the newest before.
"""

from collections.abc import Sequence
from typing import Any

from hutch.cli.api_client import Client
from hutch.cli.server_requests import short
from hutch.system.terminal_safe_text import one_line

MAX_SHOWN = 5  # messages
MAX_PROMPT_CHARS = 60
MAX_INPUTS = 100  # counted before an input
LATER = "Accepted; it takes effect when the session can process it"

Event = dict[str, Any]


async def describe_effect(client: Client, before: dict[str, Any], accepted: dict[str, Any]) -> str:
    """Describe an input's effect; `before` is the session before it."""
    id, kind = before["id"], accepted["input"]["type"]
    after = (before["head"] or {}).get("seq", 0)
    events = [each["event"] for each in (await client.get(f"/sessions/{id}/events", after=after))["items"]]
    now = await client.get(f"/sessions/{id}")
    if kind in ("message", "prompt"):
        return await _sent(client, now, accepted["seq"], events)
    if not any(each["type"] == "input.processed" and each["input"] == accepted["seq"] for each in events):
        return f"{LATER}; {short(id)} is {now['state']}."
    if kind == "cancel":
        return await _cancelled(client, now, events)
    return f"{short(id)} is {now['state']}."


async def _cancelled(client: Client, now: dict[str, Any], events: Sequence[Event]) -> str:
    ended = [each["run_id"] for each in events if each["type"] == "run.ended"]
    state = f"{short(now['id'])} is {now['state']}."
    if not ended:
        return f"Nothing was cancelled: no run was active or queued. {state}"
    run = await client.get(f"/runs/{ended[0]}")
    back = f"Its work so far stays; to undo it: hutch undo {short(now['id'])}. "
    dropped = await _dropped(client, now["id"], events)
    return f"Cancelled: {_quoted(run['prompt'])} {back if run['started_ms'] else ''}{dropped}{state}"


async def _dropped(client: Client, session_id: str, events: Sequence[Event]) -> str:
    """Name the messages that the cancelled run did not get."""
    numbers = [
        each["input"]
        for each in events
        if each["type"] == "input.processed" and each["kind"] == "message" and each.get("refused")
    ]
    if not numbers:
        return ""
    after = min(numbers) - 1
    listed = (await client.get(f"/sessions/{session_id}/inputs", after=after, limit=MAX_INPUTS))["items"]
    texts = [
        one_line(each["input"].get("text", ""), MAX_PROMPT_CHARS) for each in listed if each["seq"] in numbers
    ]
    named = ", ".join(repr(text) for text in texts[:MAX_SHOWN])
    more = f" and {len(numbers) - MAX_SHOWN} more" if len(numbers) > MAX_SHOWN else ""
    return f"The agent did not get: {named}{more}. Send again what still applies. "


async def _sent(client: Client, now: dict[str, Any], seq: int, events: Sequence[Event]) -> str:
    path, name = f"/sessions/{now['id']}", short(now["id"])
    if any(each["type"] == "message.sent" and each.get("input") == seq for each in events):
        return f"Delivered: the agent of {name} has received it."
    for run in (await client.get(f"{path}/runs", limit=50))["items"]:
        if run["input"] != seq:
            continue
        if run["state"] != "queued":
            return f"Delivered: {name} works on it as a prompt."
        position = (
            f"at position {now['queue_position']}"
            if now["queue_position"]
            else f"after the current work of {name}"
        )
        return f"Queued as a prompt, {position}."
    listed = (await client.get(f"{path}/inputs", after=max(0, seq - MAX_INPUTS), limit=MAX_INPUTS))["items"]
    waiting = [each for each in listed if not each["processed"] and each["seq"] <= seq]
    position = f"at position {len(waiting)}" if waiting else "next"
    return f"Queued, {position}: the agent of {name} is {now['state']} and gets it before its next step."


def _quoted(prompt: str) -> str:
    return f"the run of {one_line(prompt, MAX_PROMPT_CHARS)!r}." if prompt.strip() else "the last run."
