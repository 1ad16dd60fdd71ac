"""Sends an undo or redo to a session, waits for its effect however long it takes, and describes it."""

import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any

from hutch.cli.server_requests import short
from hutch.cli.session_client import SessionClient
from hutch.domain.errors import Conflict, NotFound
from hutch.system.terminal_safe_text import one_line, visible

MAX_SHOWN_FILES = 5
MAX_TITLE_CHARS = 80
PROGRESS_INTERVAL_S = 5.0
UNDO_EVENTS = ("session.rewound", "changes.undone", "session.redone")
UNCHANGED = "No file had to be changed."
# Why a file was left, and what its user can do.
REASONS = {
    "overlap": "others changed the same lines",
    "binary": "others changed it too, and it cannot be merged",
    "changed_since": "others changed it after it was created, so there is no earlier version to merge",
    "deleted_since": "others deleted it",
    "created_again": "others created it again",
    "unclear": "others may have made the change, and there are no two versions to merge",
    "blocked": "something else is in its place",
    "gone": "its earlier version is not stored any more",
    "not_compared": "its version after the change is not stored, so others may have changed it since",
}
NOT_DISCARDED = ("blocked", "gone")  # reasons for which --discard-others changes nothing

Event = dict[str, Any]


async def request_undo(
    client: SessionClient, session: Mapping[str, Any], kind: str, fields: Mapping[str, Any]
) -> tuple[dict[str, Any], Event | None]:
    """Send the input and wait until it is processed. Returns it and the event of the undo; None if there
    was nothing to undo. Raises if it was refused."""
    after = (session["head"] or {}).get("seq", 0)
    accepted = await client.give(session["id"], kind, **fields)
    reading = asyncio.ensure_future(_read_effect(client, session["id"], after, accepted["seq"]))
    began = time.monotonic()
    try:
        while not (await asyncio.wait([reading], timeout=PROGRESS_INTERVAL_S))[0]:
            sys.stderr.write(f"The {kind} is still at work after {time.monotonic() - began:.0f} s.\n")
            sys.stderr.flush()
        return accepted, await reading
    finally:
        reading.cancel()


async def _read_effect(client: SessionClient, session_id: str, after: int, seq: int) -> Event | None:
    effect: Event | None = None
    async with aclosing(client.follow(session_id, after=after)) as updates:
        async for update in updates:
            event = update.entry["event"] if update.entry else {}
            if event.get("type") in UNDO_EVENTS and event.get("input") == seq:
                effect = event
            elif event.get("type") == "input.processed" and event.get("input") == seq:
                if event.get("refused"):
                    raise Conflict(visible(event["refused"]))
                return effect
    raise Conflict("The session has ended before it was undone.")


def describe_undo(session: Mapping[str, Any], effect: Event | None, *, keeps: bool = False) -> str:
    """Describe the effect; `session` is as it is now. `keeps`: its user wanted to keep some files."""
    state = f"{short(session['id'])} is {session['state']}."
    if effect is None:
        return f"There is no run to undo, so nothing was changed. {state}"
    word = "Taken back" if effect["type"] == "session.redone" else "Undone"
    title = one_line(effect.get("title") or "the last run", MAX_TITLE_CHARS)
    return f"{word}: {title}. {_describe_files(session['id'], effect, keeps=keeps)} {state}"


async def check_can_undo(client: SessionClient, session: Mapping[str, Any]) -> None:
    """Refuse a session that has ended, and say how to take back its work."""
    if session["state"] != "ended":
        return
    with suppress(NotFound):
        delivered = (await client.find_run(session["id"])).get("delivered") or {}
        if change := delivered.get("change_id"):
            raise Conflict(
                f"The session {short(session['id'])} has ended, and its work was delivered as {change}. To "
                f"take that back: hutch changes close {change}. If it is merged, revert the merge with git."
            )
    raise Conflict(
        f"The session {short(session['id'])} has ended, so its files stay as they are. To continue from an "
        f"earlier state of them: hutch sessions fork {short(session['id'])} --snapshot N."
    )


def _describe_files(session_id: str, effect: Event, *, keeps: bool) -> str:
    """Describe what an undo did to the files."""
    changed = f"Files changed: {_names(effect['files'], effect['files_count'])}."
    said = [changed if effect["files"] else UNCHANGED]
    if effect["merged"]:
        said.append(f"Changes by others are kept in {_names(effect['merged'])}.")
    if effect["marked"]:
        said.append(f"Resolve the conflicts that are marked in {_names(effect['marked'])}.")
    if effect["kept"]:
        reasons = effect.get("reasons") or {}
        said.append(_describe_unchanged(effect["kept"], reasons))
        is_redo = effect["type"] == "session.redone"
        if not keeps and not is_redo and any(each not in NOT_DISCARDED for each in reasons.values()):
            said.append(f"Change them yourself, or take their old versions: {_discarding(session_id)}.")
    if effect["discarded"]:
        names = _names(effect["discarded"], effect["discarded_count"])
        said.append(f"Changes by others in {names} are in snapshot {effect['before']}.")
    return " ".join(said)


def _describe_unchanged(kept: Sequence[str], reasons: Mapping[str, str]) -> str:
    named = [
        f"{visible(path)} ({REASONS[reasons[path]]})" if reasons.get(path) in REASONS else visible(path)
        for path in kept[:MAX_SHOWN_FILES]
    ]
    more = f" and {len(kept) - MAX_SHOWN_FILES} more" if len(kept) > MAX_SHOWN_FILES else ""
    return f"Left as they are: {', '.join(named)}{more}."


def _discarding(session_id: str) -> str:
    return f"hutch redo {short(session_id)}, then hutch undo {short(session_id)} --discard-others"


def _names(paths: Sequence[str], count: int = 0) -> str:
    more = max(count, len(paths)) - MAX_SHOWN_FILES
    return ", ".join(map(visible, paths[:MAX_SHOWN_FILES])) + (f" and {more} more" if more > 0 else "")
