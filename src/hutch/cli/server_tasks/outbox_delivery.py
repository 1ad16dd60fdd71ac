"""Sends the changes in the outbox, in their order, and refreshes the copy of the tasks.

A change that meets a newer revision is merged field by field. Fields that both sides have changed are
set aside for the person. A task that was created offline gets its key, and changes of it follow.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from hutch.cli.api_client import Client
from hutch.cli.server_address_and_token import Address
from hutch.cli.server_tasks.task_copy_and_outbox import QueuedChange, TaskCopy
from hutch.cli.server_tasks.task_json_and_filter import merged, task_from_json
from hutch.domain.errors import (
    BadRequest,
    Conflict,
    Denied,
    HutchError,
    LimitReached,
    Unauthenticated,
    Unavailable,
)
from hutch.domain.redaction import Redactor
from hutch.system.file_lock import try_lock

MAX_MERGES = 5
PAGE, MAX_TASKS = 200, 10_000
REFUSALS = (BadRequest, Conflict, Denied, LimitReached)


def run_with_client(address: Address, work: Callable[[Client], Awaitable[None]]) -> bool:
    """False if the connection was lost meanwhile."""

    async def run() -> None:
        async with Client(lambda: address) as client:
            await work(client)

    try:
        asyncio.run(run())
    except Unavailable:
        return False
    return True


async def deliver_alone(client: Client, copy: TaskCopy) -> list[dict[str, Any]]:
    """Send the changes in the outbox, unless another command is doing so."""
    copy.prepare()
    lock = try_lock(copy.lock)
    if lock is None:
        return []
    try:
        return await deliver(client, copy)
    finally:
        os.close(lock)


async def deliver(client: Client, copy: TaskCopy) -> list[dict[str, Any]]:
    """Send what waits; the tasks that the server has stored. Raises Unavailable if it is away."""
    stored = []
    while waiting := [each for each in copy.changes() if each.status == "waiting"]:
        change = waiting[0]
        try:
            stored += await _send(client, copy, change)
        except Unauthenticated:  # a matter of the login, not of the change
            raise
        except REFUSALS as error:
            copy.replace(replace(change, status="refused", problem=str(error)))
    return stored


async def _send(client: Client, copy: TaskCopy, change: QueuedChange) -> list[dict[str, Any]]:
    key = {"Idempotency-Key": change.id}
    if change.kind == "create":
        answer = await client.request("POST", "/tasks", json=dict(change.values), headers=key, again=False)
        made = answer.json()
        for other in copy.changes():  # later changes of the new task name it by its id now
            if other.task == change.task and other.id != change.id:
                copy.replace(replace(other, task=made["id"], key=made["key"], revision=made["revision"]))
        copy.drop(change)
        return [made]
    if change.kind == "comment":
        path = f"/tasks/{change.task}/comments"
        await client.request("POST", path, json=dict(change.values), headers=key, again=False)
        copy.drop(change)
        return []
    return await _send_change(client, copy, change)


async def _send_change(client: Client, copy: TaskCopy, change: QueuedChange) -> list[dict[str, Any]]:
    path, values, revision = f"/tasks/{change.task}", dict(change.values), change.revision
    for attempt in range(MAX_MERGES):
        try:
            body = {**values, "revision": revision}
            stored = (await client.request("PATCH", path, json=body, again=False)).json()
        except Conflict:
            if attempt == MAX_MERGES - 1:
                raise
            theirs = await client.get(path)
            values, conflicts = merged(change.before, change.values, task_from_json(theirs))
            if conflicts:
                aside = replace(
                    change, status="conflict", fields=tuple(conflicts), theirs=theirs, values=values
                )
                copy.replace(aside)
                return []
            revision = theirs["revision"]
            if not values:
                stored = theirs
            else:
                continue
        copy.drop(change)
        return [stored]
    return []


async def refresh(client: Client, copy: TaskCopy) -> None:
    """Copy all tasks, without secrets by their known shapes."""
    tasks: list[dict[str, Any]] = []
    for archived in (False, True):
        cursor = ""
        while len(tasks) < MAX_TASKS:
            page = await client.get("/tasks", limit=PAGE, cursor=cursor, archived=archived)
            tasks += page["items"]
            cursor = page["next"]
            if not cursor:
                break
    name = (await client.get("/me"))["user"]["name"]
    waiting = 0
    with suppress(HutchError):  # a server that shows no sessions to this user still has tasks
        waiting = len((await client.get("/sessions", state="waiting", limit=PAGE))["items"])
    redactor = Redactor(())
    copy.store([_redacted(each, redactor) for each in tasks], name, waiting)


def _redacted(value: Any, redactor: Redactor) -> Any:
    if isinstance(value, str):
        return redactor.redact(value)
    if isinstance(value, Mapping):
        return {name: _redacted(each, redactor) for name, each in value.items()}
    if isinstance(value, list):
        return [_redacted(each, redactor) for each in value]
    return value
