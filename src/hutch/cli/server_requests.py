"""What all commands that ask the server share: how they ask, and which session is meant."""

import asyncio
import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import suppress
from functools import wraps
from typing import Annotated, Any, ParamSpec

import typer

from hutch.cli import exit_codes
from hutch.cli.client import Client
from hutch.domain.errors import BadRequest, Denied, HutchError, NotFound
from hutch.domain.ids import MIN_PART_CHARS, ambiguous_id, matches_id

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs; errors too.")]
SessionName = Annotated[
    str,
    typer.Argument(
        metavar="SESSION", help="Its id, the beginning or the end of it when that fits only one, or 'last'."
    ),
]
Given = ParamSpec("Given")
WHOLE = re.compile(r"ses_[0-9a-z]{26}")
SHORT_CHARS = 6
PAGE, MOST_PAGES = 200, 50
NONE_YET = "There are no sessions yet. Make one: hutch sessions new"


def ask(work: Callable[[Client], Awaitable[int | None]], *, as_json: bool = False) -> int:
    """Ask the server; with `as_json` what goes wrong is told as JSON, on standard error."""

    async def run() -> int | None:
        async with Client() as client:
            return await work(client)

    try:
        return asyncio.run(run()) or exit_codes.OK
    except HutchError as error:
        if not as_json:
            raise
        sys.stderr.write(f"{exit_codes.error_json(error)}\n")
        return exit_codes.code_of(error)


def report_errors(command: Callable[Given, int | None]) -> Callable[Given, int | None]:
    """The same for a command that asks no server: `as_json` is one of its options."""

    @wraps(command)
    def wrapper(*args: Given.args, **options: Given.kwargs) -> int | None:
        try:
            return command(*args, **options)
        except HutchError as error:
            if not options["as_json"]:
                raise
            sys.stderr.write(f"{exit_codes.error_json(error)}\n")
            return exit_codes.code_of(error)

    return wrapper


async def find_session(client: Client, name: str) -> dict[str, Any]:
    """The session that somebody means."""
    if name == "last":
        found = (await client.get("/sessions", limit=1))["items"]
        if not found:
            raise NotFound(NONE_YET)
        return dict(found[0])
    if WHOLE.fullmatch(name):
        return dict(await client.get(f"/sessions/{name}"))
    if len(name) < MIN_PART_CHARS or not re.fullmatch(r"(ses_)?[0-9a-z]{1,26}", name):
        raise BadRequest(
            f"{name[:80]!r} names no session. Give its id, {MIN_PART_CHARS} letters or more of its beginning "
            "or end, or 'last'."
        )
    fitting = [each async for each in every_session(client) if matches_id(each["id"], name)]
    if not fitting:
        raise NotFound(f"There is no session {name[:80]!r}. `hutch sessions list` shows what there is.")
    if len(fitting) > 1:
        raise ambiguous_id([each["id"] for each in fitting], name, "sessions")
    return fitting[0]


def every_session(client: Client, **which: Any) -> AsyncIterator[dict[str, Any]]:
    """All that the user may see, the newest first."""
    return _every(client, "/sessions", **which)


async def _every(client: Client, path: str, **which: Any) -> AsyncIterator[dict[str, Any]]:
    """What a list holds, page by page."""
    cursor = ""
    for _ in range(MOST_PAGES):
        page = await client.get(path, limit=PAGE, cursor=cursor, **which)
        for each in page["items"]:
            yield each
        cursor = page["next"]
        if not cursor:
            return


def short(session_id: str) -> str:
    """The end of an id: enough to name it. Beginnings tell the time, and are alike."""
    return session_id[-SHORT_CHARS:]


async def names_of_users(
    client: Client, session: Mapping[str, Any] | None = None
) -> tuple[str, dict[str, str]]:
    """The id of who asks, and the names of all whom they may know; the owner of a session is one of them."""
    me = (await client.get("/me"))["user"]
    names = {me["id"]: me["name"]}
    with suppress(Denied):  # only an owner is told of all
        names |= {each["id"]: each["name"] async for each in _every(client, "/users")}
    if session and session.get("owner_name"):
        names.setdefault(session["owner"], session["owner_name"])
    return str(me["id"]), names
