"""Imports approval rules from the files of earlier versions into the database, once.

The rules allow actions without asking, so a file that other users could write is refused. An imported
file is renamed: otherwise a rule that is withdrawn later would come back.
"""

import asyncio
import json
import os
import stat
from pathlib import Path

import structlog

from hutch.domain.errors import BadRequest, HutchError, Unavailable
from hutch.domain.ids import parse_user_id
from hutch.store.permanent_approvals import ApprovalRule, ApprovalRules
from hutch.store.table_access_interface import Rows
from hutch.store.users import Users
from hutch.system.file_lock import locked_async

MAX_FILE_BYTES = 1 << 20
DONE = ".imported"

logger = structlog.get_logger()


async def import_approvals(rows: Rows, file: Path) -> list[str]:
    """Import the files of this machine's user and of the server's users. Returns the errors."""
    problems: list[str] = []
    for path in await asyncio.to_thread(_find, file):
        try:
            if path != file:
                await _import(rows, parse_user_id(path.stem), path)
            elif owner := await Users(rows).first_owner():
                await _import(rows, owner.id, path)
        except HutchError as error:
            problems.append(str(error))
            logger.warning("approvals.not_imported", problem=str(error))
    return problems


def _find(file: Path) -> list[Path]:
    found = [file] if file.exists() else []
    return found + sorted(file.with_name(file.stem).glob("*.json"))


async def _import(rows: Rows, user_id: str, path: Path) -> None:
    try:
        async with locked_async(path.with_suffix(".lock")):  # as the versions that wrote the file did
            rules = await asyncio.to_thread(read_rules, path)
            await ApprovalRules(rows).add(user_id, rules)
            await asyncio.to_thread(path.rename, path.with_name(f"{path.name}{DONE}"))
    except FileNotFoundError:
        return  # another process was first
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.") from None


def read_rules(path: Path) -> list[ApprovalRule]:
    """The rules in a file of an earlier version. Blocks the thread."""
    with path.open("rb") as file:
        found = os.fstat(file.fileno())
        if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise Unavailable(f"{path} can be written by others. Fix it: chmod 600 {path}")
        raw = file.read(MAX_FILE_BYTES + 1)
    try:
        return [(_text(each["tool"]), _text(each["pattern"])) for each in json.loads(raw)["rules"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        problem = "it must contain rules, each with a tool and a pattern"
        raise BadRequest(f"{path} cannot be used: {problem}. Fix it, or delete it.") from None


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value
