"""What came of something that was asked of a session: which run, which files, and who has heard it.

The server has taken an input up when it answers, or will when it can. What that did is in the
log after the event that was the last before.
"""

from collections.abc import Sequence
from typing import Any

from hutch.cli.client import Client
from hutch.cli.server_requests import short
from hutch.domain.errors import HutchError
from hutch.system.terminal_text import one_line, visible

SHOWN_FILES = 5
PROMPT_CHARS = 60
MAX_INPUTS = 100  # that are counted before one
LATER = "It is noted, and will be done when the session can"

Event = dict[str, Any]


async def acknowledged(
    client: Client, before: dict[str, Any], given: dict[str, Any], *, newest: int | None = None
) -> str:
    """A sentence or two about an input. `before` is the session as it was, `newest` its snapshot then."""
    id, kind = before["id"], given["input"]["type"]
    after = (before["head"] or {}).get("seq", 0)
    events = [each["event"] for each in (await client.get(f"/sessions/{id}/events", after=after))["items"]]
    now = await client.get(f"/sessions/{id}")
    if kind in ("message", "prompt"):
        return await _said(client, now, given["seq"], events)
    if not any(each["type"] == "input.processed" and each["input"] == given["seq"] for each in events):
        return f"{LATER}; {short(id)} is {now['state']}."
    if kind == "cancel":
        return await _cancelled(client, now, events)
    if kind == "undo":
        return await _undone(client, now, events, newest)
    return f"{short(id)} is {now['state']}."


async def newest_snapshot(client: Client, session_id: str) -> int | None:
    """What the files were kept as last; to be asked for before something is undone."""
    found = (await client.get(f"/sessions/{session_id}/snapshots", limit=1))["items"]
    return int(found[0]["id"]) if found else None


async def _cancelled(client: Client, now: dict[str, Any], events: Sequence[Event]) -> str:
    ended = [each["run_id"] for each in events if each["type"] == "run.ended"]
    state = f"{short(now['id'])} is {now['state']}."
    if not ended:
        return f"Nothing was running or waiting, so nothing was cancelled; {state}"
    run = await client.get(f"/runs/{ended[0]}")
    back = f"Its work so far stays; take it back: hutch undo {short(now['id'])}. "
    return f"Cancelled: {_quoted(run['prompt'])} {back if run['started_ms'] else ''}{state}"


async def _undone(client: Client, now: dict[str, Any], events: Sequence[Event], newest: int | None) -> str:
    rewound = next((each for each in events if each["type"] == "session.rewound"), None)
    state = f"{short(now['id'])} is {now['state']}."
    refused = next((each["refused"] for each in events if each.get("refused")), "")
    if refused:
        return f"{visible(refused)} {state}"
    if rewound is None:
        return f"There is no run left to undo, so nothing was changed. {state}"
    path = f"/sessions/{now['id']}"
    first = (await client.get(f"{path}/events", after=rewound["to_seq"], limit=5))["items"]
    prompt = next((each["event"]["prompt"] for each in first if each["event"]["type"] == "run.started"), "")
    files = await _files(client, path, rewound["snapshot"], newest)
    if count := rewound.get("discarded_count"):
        names = ", ".join(visible(each) for each in rewound["discarded"][:SHOWN_FILES])
        more = f" and {count - SHOWN_FILES} more" if count > SHOWN_FILES else ""
        files += f" What others had changed in {names}{more} is in snapshot {rewound['before']}."
    return f"Undone: {_quoted(prompt)} {files} {state}"


async def _files(client: Client, path: str, snapshot: int, newest: int | None) -> str:
    """Which files are otherwise than they were before it was undone."""
    back = f"as they were in snapshot {snapshot}"
    if not snapshot or newest is None:
        return "There were no files to put back."
    try:
        difference = await client.get(f"{path}/diff", old=newest, new=snapshot, limit=SHOWN_FILES)
    except HutchError:  # it is undone all the same
        return f"The files are {back}."
    changed, total = difference["files"], difference["total"]
    if not changed:
        return f"No file had been changed; they are {back}."
    names = [visible(each["path"]) for each in changed[:SHOWN_FILES]]
    more = f" and {total - SHOWN_FILES} more" if total > SHOWN_FILES else ""
    return f"Files are {back}: {', '.join(names)}{more}."


async def _said(client: Client, now: dict[str, Any], seq: int, events: Sequence[Event]) -> str:
    path, name = f"/sessions/{now['id']}", short(now["id"])
    if any(each["type"] == "message.sent" and each.get("input") == seq for each in events):
        return f"Delivered: the agent of {name} has heard it."
    for run in (await client.get(f"{path}/runs", limit=50))["items"]:
        if run["input"] != seq:
            continue
        if run["state"] != "queued":
            return f"Delivered: {name} has taken it up as a prompt."
        position = (
            f"at position {now['queue_position']} in the queue"
            if now["queue_position"]
            else f"behind what {name} does now"
        )
        return f"Queued as a prompt, {position}."
    listed = (await client.get(f"{path}/inputs", after=max(0, seq - MAX_INPUTS), limit=MAX_INPUTS))["items"]
    waiting = [each for each in listed if not each["processed"] and each["seq"] <= seq]
    position = f"at position {len(waiting)} of what waits for it" if waiting else "next"
    return f"Queued, {position}: the agent of {name} is {now['state']}, and hears it before its next step."


def _quoted(prompt: str) -> str:
    return f"the run of {one_line(prompt, PROMPT_CHARS)!r}." if prompt.strip() else "the last run."
