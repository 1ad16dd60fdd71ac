"""Helpers for commands on the local event log: open it, and find a session in it."""

import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict
from typing import Any

import typer

from hutch import settings
from hutch.app.event_log import event_log
from hutch.cli.current_repository import MAX_NEWEST, newest_of_repository
from hutch.domain.errors import NotFound
from hutch.domain.ids import SessionId, parse_session_id
from hutch.store.event_log import SqlLog
from hutch.store.interviews import Interviews
from hutch.store.sessions import Sessions
from hutch.store.short_id_lookup import find_session_id
from hutch.store.users import Users

WHOLE = re.compile(r"ses_[0-9a-z]{26}")
SHORT = re.compile(r"(ses_)?[0-9a-z]{3,25}")
NONE_YET = "There are no sessions yet. `hutch run` creates one."


def is_new(loaded: settings.LoadedSettings) -> bool:
    """True when no database was ever created here; a lost one leaves its signing key."""
    if loaded.settings.database.url is not None:
        return False
    return not loaded.paths.database.exists() and not loaded.paths.signing_key.exists()


@asynccontextmanager
async def open_sessions(loaded: settings.LoadedSettings) -> AsyncIterator[SqlLog]:
    """Open the event log of an installation that has one; does not create one."""
    if is_new(loaded):
        raise NotFound(NONE_YET)
    async with event_log(loaded) as log:
        yield log


async def stored_sessions(
    loaded: settings.LoadedSettings, *, states: Sequence[str], text: str, limit: int, interviews: bool
) -> list[dict[str, Any]]:
    """The sessions of this installation as a server would list them, newest first."""
    async with event_log(loaded) as log:
        chosen: Any = states  # the caller has checked them
        found = await Sessions(log).page(
            user_id=None, states=chosen, text=text, limit=limit, interviews=interviews
        )
        rooms = await Interviews(log).of_sessions([each.id for each in found])
        names = await Users(log).names({each.owner for each in found})
    unknown = {"queue_position": None, "head": None, "delivered": None}
    return [
        {
            **asdict(each),
            "owner_name": names.get(each.owner, ""),
            "interview": rooms.get(each.id, ""),
            **unknown,
        }
        for each in found
    ]


def warn_of_defects(session_id: SessionId, defects: Sequence[str]) -> None:
    """Print the defects of a log to standard error."""
    for defect in defects:
        typer.echo(f"warning: The log of session {session_id} is damaged. {defect}", err=True)


async def _last_session(log: SqlLog) -> SessionId:
    ids = [head.session_id for head in await log.heads(limit=MAX_NEWEST)]
    rows = await Sessions(log).get_many(ids)  # logs of older versions and of the MCP server have none
    ids = [id for id in ids if id not in rows or not rows[id].parent]
    last = newest_of_repository(ids, lambda id: rows[id].repository if id in rows else "")
    if last is None:
        raise NotFound(NONE_YET)
    return last


async def find_session(log: SqlLog, text: str) -> SessionId:
    """Find a session by its id, a unique prefix or suffix of it, or `last`: the newest of the current
    repository, or of all if that has none."""
    if text == "last":
        return await _last_session(log)
    if WHOLE.fullmatch(text):
        return parse_session_id(text)
    if found := await find_session_id(log, text):
        return SessionId(found)
    if SHORT.fullmatch(text):
        raise NotFound(f"There is no session {text!r}. `hutch log` lists the sessions.")
    return parse_session_id(text)
